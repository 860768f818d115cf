"""The reply of a run: made from an agent's output, how its program ended, and why it was stopped."""

from __future__ import annotations

import os
from dataclasses import replace

from duetime.kinds.prompts.agent import Reply
from duetime.kinds.prompts.agents.environment import Secrets
from duetime.kinds.prompts.agents.transcript import Transcript
from duetime.processes.child import signal_name
from duetime.processes.supervisor import ExitStatus

_STDERR_SHOWN = 300
"""Characters of standard error that an error message shows."""


def reply_of(
    program: str, transcript: Transcript, ended: ExitStatus, why: str | None, stderr: str, secrets: Secrets
) -> Reply:
    """Return the reply. `why` is the reason if the program was stopped; what it did until then is included anyway."""
    error = why or _failure(program, transcript, ended, secrets.without(stderr))
    reply = to_reply(transcript, error, secrets)
    return replace(reply, exit_code=ended.code, permanent=why is None and ended.errno is not None)


def to_reply(transcript: Transcript, error: str | None, secrets: Secrets) -> Reply:
    """Return what an agent said, with the secrets that it was given redacted."""
    return Reply(
        text=secrets.without(transcript.text),
        outcome=secrets.cleaned(transcript.outcome),
        tool_calls=secrets.cleaned(transcript.view()),
        earlier_calls=transcript.earlier_calls,
        denied=[secrets.without(name) for name in transcript.denied],
        spent=transcript.spent,
        error=None if error is None else secrets.in_short(error),
    )


def _failure(program: str, transcript: Transcript, ended: ExitStatus, stderr: str) -> str | None:
    details = f": {_end_of(stderr)}" if stderr else ""
    if ended.errno is not None:
        return f"{program} cannot be started: {os.strerror(ended.errno).lower()}"
    if ended.signal is not None:
        return f"{program} was ended by {signal_name(ended.signal)}{details}"
    if transcript.error is not None:
        return f"{program} failed: {transcript.error}"
    if ended.code is None:
        return f"{program} disappeared together with what held it{details}"
    if ended.code != 0:
        return f"{program} ended with exit code {ended.code}{details}"
    if not transcript.ended:
        said = f": {transcript.beginning}" if transcript.beginning else details
        return f"{program} did not answer in the form that its preset asks for; try its latest version{said}"
    return answer_problem(program, transcript)


def answer_problem(who: str, transcript: Transcript) -> str | None:
    """Return what is wrong with an answer that arrived normally and reports no failure itself, if anything."""
    if transcript.unreadable is not None:
        return f"{who} {transcript.unreadable}"
    if transcript.denied:
        return f"it was not allowed to use {', '.join(transcript.denied)}; allow it, or word the prompt otherwise"
    return None


def _end_of(text: str) -> str:
    return text if len(text) <= _STDERR_SHOWN else "..." + text[3 - _STDERR_SHOWN :]
