"""Reads the output of a program (its answer, tool calls, usage and errors), and builds the reply of its run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from duetime.engine.encoding import json_object, parse_json
from duetime.kinds.prompts.agent import AgentReply, Spent
from duetime.kinds.prompts.agents.environment import SERVER, TOOLS
from duetime.processes.child import signal_name
from duetime.processes.output import MOST_KEPT, LineBuffer, OutputBuffer
from duetime.processes.supervisor import ExitStatus
from duetime.security.redaction import Secrets

MOST_CALLS = 100
LONGEST = 1000
"""Characters that are kept of a tool's arguments, and of its result."""
_BEGINNING = 200
_ENDLESS = 10**15
_OBJECT_BEGINS = re.compile(r'\s*\{\s*(?:"|$)')
_PREFIXES = tuple(
    f"{before}{server}{after}"
    for server in (SERVER, TOOLS)
    for before, after in (("mcp__", "__"), ("mcp_", "_"), ("", "__"), ("", "_"))
)
"""Prefixes that programs put before the names of Duetime's tools and of the gateway's."""


@dataclass(slots=True)
class Transcript:
    """The facts known so far about an agent's run."""

    text: str = ""
    outcome: Any = None
    ended: bool = False
    """Whether it said that it is done, so that missing parts will not arrive."""
    error: str | None = None
    denied: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    earlier_calls: int = 0
    spent: Spent = field(default_factory=Spent)
    progress: str | None = None
    """The latest progress to report."""
    beginning: str = ""
    """Beginning of the text that it wrote instead of an answer."""
    unreadable: str | None = None
    """The problem of an incomplete answer."""

    def append_text(self, text: str) -> None:
        self.text = (self.text + text)[:MOST_KEPT]

    def begin_call(self, id: object, name: object, arguments: object) -> None:
        name = without_prefix(str(name or "?"))
        self.progress = f"called {name}"
        self.calls.append({"id": str(id), "name": name, "arguments": bounded(arguments)})
        if len(self.calls) > MOST_CALLS:  # the last calls of a long run say more than its first
            del self.calls[0]
            self.earlier_calls += 1

    def end_call(self, id: object, result: object, *, failed: bool = False) -> None:
        for call in reversed(self.calls):
            if call["id"] == str(id):
                call["result"] = bounded(result)
                if failed:
                    call["failed"] = True
                return

    def name_of_call(self, id: object) -> str | None:
        return next((call["name"] for call in reversed(self.calls) if call["id"] == str(id)), None)

    def deny(self, name: object) -> None:
        name = str(name or "a tool without a name")
        if name not in self.denied:
            self.denied.append(name)

    def add_usage(self, input_tokens: object = 0, output_tokens: object = 0, dollars: object = 0) -> None:
        self.spent = Spent(
            self.spent.input_tokens + int(number(input_tokens)),
            self.spent.output_tokens + int(number(output_tokens)),
            self.spent.dollars + number(dollars),
        )

    def view(self) -> list[dict[str, Any]]:
        return [{name: value for name, value in call.items() if name != "id"} for call in self.calls]


Read = Callable[[Transcript, Mapping[str, Any]], None]
"""Reads one event of a program's stream."""


class AnswerReader:
    """Reads the output of a program without a preset: all of it is the answer."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self._kept = OutputBuffer()

    def take(self, data: bytes) -> None:
        self._kept.add(data)

    def finish(self) -> None:
        read_answer(self.transcript, self._kept.text())


class EventReader:
    """Reads one JSON object per line; other lines are not events."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lines = LineBuffer()
        self.transcript = Transcript()

    def take(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._event(line)

    def finish(self) -> None:
        for line in self._lines.rest():
            self._event(line)

    def _event(self, line: bytes) -> None:
        event = json_object(line)
        if event is not None:
            self._read(self.transcript, event)
        elif not self.transcript.beginning:
            self.transcript.beginning = line[:_BEGINNING].decode("utf-8", "replace").strip()


Reader = AnswerReader | EventReader
"""Reads standard output as it comes."""


def read_answer(transcript: Transcript, text: str, *, as_json: bool = False) -> None:
    """Read a text, or one JSON object with a `result` or `text` and optional other fields, as `claude
    --output-format json` prints and a webhook may send. With `as_json`, the answer was declared as JSON; an empty
    answer is valid too."""
    transcript.ended = True
    document = parse_json(text)
    if document is None and (_is_cut_off(text) or (as_json and text.strip() not in ("", "null"))):
        transcript.unreadable = "answered in JSON that cannot be read; it may have been cut off"
    if not isinstance(document, dict) or not {"result", "text", "error"} & document.keys():
        transcript.text = "" if as_json and text.strip() == "null" else text.strip()
    else:
        read_document(transcript, document)


def read_document(transcript: Transcript, document: Mapping[str, Any]) -> None:
    """Read a result: `result` or `text`, and the outcome of the run, under the names that programs and webhooks use."""
    result = document.get("result", document.get("text"))
    transcript.text = result if isinstance(result, str) else "" if result is None else bounded_text(result)
    transcript.outcome = document.get("outcome", document.get("structured_output"))
    if transcript.outcome is None and not isinstance(result, str):
        transcript.outcome = result
    read_usage(transcript, document.get("usage"))
    dollars = first_present(document, "total_cost_usd", "cost_usd", "cost", "dollars")
    transcript.add_usage(dollars=dollars or lookup(document, "usage", "dollars"))
    for call in as_list(document.get("tool_calls")):
        if isinstance(call, dict):
            transcript.begin_call("", call.get("name"), call.get("arguments"))
    for denied in as_list(document.get("permission_denials")) + as_list(document.get("denied")):
        transcript.deny(lookup(denied, "tool_name") if isinstance(denied, dict) else denied)
    if error := document.get("error"):
        transcript.error = str(lookup(error, "message") or error)
    elif document.get("is_error") is True:
        errors = "; ".join(str(each) for each in as_list(document.get("errors")))
        transcript.error = transcript.text or errors or str(document.get("subtype") or "it says that it failed")


def _is_cut_off(text: str) -> bool:
    """Return whether a text begins like a JSON object but is not one. An object with text after it is not meant as
    JSON."""
    if _OBJECT_BEGINS.match(text) is None:
        return False
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return True
    return False


def read_usage(transcript: Transcript, usage: object) -> None:
    """Add usage as Anthropic and OpenAI report it; tokens read from or written to a cache are input too."""
    if isinstance(usage, dict):
        cached = number(usage.get("cache_creation_input_tokens")) + number(usage.get("cache_read_input_tokens"))
        transcript.add_usage(
            number(first_present(usage, "input_tokens", "prompt_tokens")) + cached,
            first_present(usage, "output_tokens", "completion_tokens"),
        )


def lookup(value: object, *path: str) -> Any:
    """Return the value at a path in a document that may have any shape."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def first_present(document: Mapping[str, Any], *names: str) -> Any:
    return next((document[name] for name in names if document.get(name) is not None), 0)


def text_of(content: object) -> str:
    """Return the text of what MCP and model providers call content: a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in as_list(content) if isinstance(lookup(part, "text"), str))


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def number(value: object) -> float:
    """Return a reported number; 0 if it is negative, too large or not a number, because it is counted towards
    limits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < _ENDLESS else 0.0


def bounded(value: object) -> Any:
    """Return the value if it is short enough to be stored, otherwise the beginning of its text."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[: LONGEST - 3] + "..."
    return value if len(bounded_text(value)) < LONGEST else bounded_text(value)


def bounded_text(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "..."
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def without_prefix(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)


_STDERR_SHOWN = 300
"""Characters of standard error that an error message shows."""


def reply_of(
    program: str, transcript: Transcript, ended: ExitStatus, why: str | None, stderr: str, secrets: Secrets
) -> AgentReply:
    """Return the reply. `why` is the reason if the program was stopped; what it did until then is included anyway."""
    error = why or _failure(program, transcript, ended, secrets.without(stderr))
    reply = to_reply(transcript, error, secrets)
    return replace(reply, exit_code=ended.code, permanent=why is None and ended.errno is not None)


def to_reply(transcript: Transcript, error: str | None, secrets: Secrets) -> AgentReply:
    """Return an agent's answer, with the secrets that it was given redacted."""
    return AgentReply(
        text=secrets.without(transcript.text),
        outcome=secrets.cleaned(transcript.outcome),
        tool_calls=secrets.cleaned(transcript.view()),
        earlier_calls=transcript.earlier_calls,
        denied=[secrets.without(name) for name in transcript.denied],
        spent=transcript.spent,
        error=None if error is None else secrets.in_short(error),
    )


def _failure(program: str, transcript: Transcript, ended: ExitStatus, stderr: str) -> str | None:
    ending = stderr if len(stderr) <= _STDERR_SHOWN else "..." + stderr[3 - _STDERR_SHOWN :]
    details = f": {ending}" if stderr else ""
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
        beginning = f": {transcript.beginning}" if transcript.beginning else details
        return f"{program} did not answer in the form that its preset asks for; try its latest version{beginning}"
    return answer_problem(program, transcript)


def answer_problem(who: str, transcript: Transcript) -> str | None:
    """Return what is wrong with an answer that arrived normally and reports no failure itself, if anything."""
    if transcript.unreadable is not None:
        return f"{who} {transcript.unreadable}"
    if transcript.denied:
        return f"it was not allowed to use {', '.join(transcript.denied)}; allow it, or word the prompt otherwise"
    return None
