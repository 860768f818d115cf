"""What became of a run: from what a program said, how it ended, and why it had to."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from duetime.agents.answers import Heard
from duetime.agents.environment import Secrets
from duetime.agents.process import Ended
from duetime.core.waking import Reply

_LAST_WORDS = 300
"""Characters of its standard error that an error shows."""


def reply_of(program: str, heard: Heard, ended: Ended, why: str | None, last_words: str, secrets: Secrets) -> Reply:
    """`why`: the reason where it was made to end. What it did until then is told all the same."""
    error = why or _failure(program, heard, ended, secrets.without(last_words))
    reply = told(heard, error, secrets)
    return replace(reply, exit_code=ended.code, permanent=why is None and ended.errno is not None)


def told(heard: Heard, error: str | None, secrets: Secrets) -> Reply:
    """What an agent said, without what it was trusted with."""
    return Reply(
        text=secrets.without(heard.text),
        outcome=secrets.cleaned(heard.outcome),
        tool_calls=secrets.cleaned(heard.view()),
        earlier_calls=heard.earlier_calls,
        denied=[secrets.without(name) for name in heard.denied],
        spent=heard.spent,
        error=None if error is None else secrets.in_short(error),
    )


def _failure(program: str, heard: Heard, ended: Ended, last_words: str) -> str | None:
    because = f": {_end_of(last_words)}" if last_words else ""
    if ended.errno is not None:
        return f"{program} cannot be started: {os.strerror(ended.errno).lower()}"
    if ended.signal is not None:
        return f"{program} was ended by {_signal_name(ended.signal)}{because}"
    if heard.error is not None:
        return f"{program} failed: {heard.error}"
    if ended.code is None:
        return f"{program} disappeared together with what held it{because}"
    if ended.code != 0:
        return f"{program} ended with exit code {ended.code}{because}"
    if not heard.ended:
        said = f": {heard.beginning}" if heard.beginning else because
        return f"{program} did not answer in the form that its preset asks for; try its latest version{said}"
    return shortcoming(program, heard)


def shortcoming(who: str, heard: Heard) -> str | None:
    """Of an answer that came as it should, and says of itself no failure."""
    if heard.unreadable is not None:
        return f"{who} {heard.unreadable}"
    if heard.denied:
        return f"it was not allowed to use {', '.join(heard.denied)}; allow it, or word the prompt otherwise"
    return None


def _end_of(text: str) -> str:
    return text if len(text) <= _LAST_WORDS else "..." + text[3 - _LAST_WORDS :]


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return f"signal {number}"
    return f"{name} (the system may have run out of memory)" if name == "SIGKILL" else name
