"""Parsers for the event streams of known programs, each written from the program's real output. Other events are
ignored, and no event is assumed to have a certain shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.kinds.prompts.agents.transcript import Transcript, at, number, read_usage, some_list, texts

_GOOSE_TROUBLE = "Ran into this error: "
"""Prefix by which goose reports, in place of the model's answer, that there is none."""
_FORBIDDEN = ("The user rejected permission", "The user has specified a rule which prevents")
"""Prefixes of opencode's messages that a tool was not allowed."""
_OUTSIDE = "Path not in workspace"
"""Prefix of Gemini CLI's message that the tool was allowed but the path was not."""
_NOT_ALLOWED = ("policy_violation", "path_not_in_workspace")
"""Gemini CLI's error types for a tool or a path that was not allowed."""


def read_claude(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `claude --output-format stream-json`; its last event is all that `--output-format json` prints."""
    if event.get("type") == "result":
        transcript.ended = True
        transcript.text = str(event.get("result") or "")
        transcript.outcome = event.get("structured_output")
        transcript.input_tokens = transcript.output_tokens = 0  # each result counts the whole session
        read_usage(transcript, event.get("usage"))
        transcript.dollars = number(event.get("total_cost_usd"))
        for denied in some_list(event.get("permission_denials")):
            transcript.deny(at(denied, "tool_name"))
        if event.get("is_error") is True:
            errors = "; ".join(str(error) for error in some_list(event.get("errors")))
            transcript.error = transcript.text or errors or str(event.get("subtype") or "it says that it failed")
        return
    for part in some_list(at(event, "message", "content")):
        if at(part, "type") == "tool_use":
            transcript.begin_call(at(part, "id"), at(part, "name"), at(part, "input"))
        elif at(part, "type") == "tool_result":
            failed = at(part, "is_error") is True
            transcript.end_call(at(part, "tool_use_id"), texts(at(part, "content")), failed=failed)


def read_codex(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `codex exec --json`."""
    match event.get("type"):
        case "item.started" | "item.completed" as type_:
            transcript.error = None  # it continued after the error
            _codex_item(transcript, event.get("item"), over=type_ == "item.completed")
        case "turn.completed":
            transcript.ended, transcript.error = True, None
            transcript.use(at(event, "usage", "input_tokens"), at(event, "usage", "output_tokens"))
        case "turn.failed":
            transcript.error = str(at(event, "error", "message") or "its turn failed")
        case "error":
            transcript.error = str(event.get("message") or "an error without words")
        case _:
            pass


def _codex_item(transcript: Transcript, item: object, *, over: bool) -> None:
    kind, id_ = at(item, "type"), at(item, "id")
    if kind == "agent_message" and over:
        transcript.text = str(at(item, "text") or "")
    if kind not in ("mcp_tool_call", "command_execution"):
        return
    name = at(item, "tool") if kind == "mcp_tool_call" else "shell"
    if not transcript.knows_call(id_):
        transcript.begin_call(id_, name, at(item, "arguments") or at(item, "command"))
    if not over:
        return
    status = at(item, "status")
    said = texts(at(item, "result", "content")) or at(item, "error", "message") or at(item, "aggregated_output")
    transcript.end_call(id_, said or "", failed=status != "completed")
    if status == "declined":
        transcript.deny(name)


def read_gemini(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `gemini -o stream-json`. What it said before a tool call is not its answer."""
    match event.get("type"):
        case "tool_use":
            transcript.text = ""
            transcript.begin_call(event.get("tool_id"), event.get("tool_name"), event.get("parameters"))
        case "tool_result":
            said = event.get("output") or at(event, "error", "message") or ""
            transcript.end_call(event.get("tool_id"), said, failed=event.get("status") != "success")
            if at(event, "error", "type") in _NOT_ALLOWED or str(at(event, "error", "message")).startswith(_OUTSIDE):
                transcript.deny(transcript.name_of_call(event.get("tool_id")))
        case "message" if event.get("role") == "assistant":
            transcript.say(str(event.get("content") or ""))
        case "result":
            transcript.ended = True
            transcript.use(at(event, "stats", "input_tokens"), at(event, "stats", "output_tokens"))
            if event.get("status") != "success":
                transcript.error = str(at(event, "error", "message") or "it says that it failed")
        case _:
            pass


def read_opencode(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `opencode run --format json`. Each step begins a new answer; the last one counts."""
    part = event.get("part")
    match event.get("type"):
        case "step_start":
            transcript.text = ""
        case "text":
            transcript.say(str(at(part, "text") or ""))
        case "tool_use":
            error = at(part, "state", "error")
            transcript.begin_call(at(part, "callID"), at(part, "tool"), at(part, "state", "input"))
            transcript.end_call(
                at(part, "callID"), error or at(part, "state", "output") or "", failed=error is not None
            )
            if str(error).startswith(_FORBIDDEN):
                transcript.deny(at(part, "tool"))
        case "step_finish":
            transcript.ended = at(part, "reason") != "tool-calls"
            cached = number(at(part, "tokens", "cache", "read")) + number(at(part, "tokens", "cache", "write"))
            used = number(at(part, "tokens", "input")) + cached
            transcript.use(used, at(part, "tokens", "output"), at(part, "cost"))
        case "error":
            said = at(event, "error", "data", "message") or at(event, "error", "name")
            transcript.error = str(said or "an error without words")
        case _:
            pass


def read_goose(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `goose run --output-format stream-json`. It exits with code 0 even if the model refused to answer."""
    if event.get("type") == "complete":
        transcript.ended = True
        transcript.use(event.get("input_tokens"), event.get("output_tokens"), event.get("cost_usd"))
    elif event.get("type") == "error":
        transcript.error = str(event.get("error") or "an error without words")
    message = event.get("message")
    for part in some_list(at(message, "content")):
        _goose_part(transcript, part, message)


def _goose_part(transcript: Transcript, part: object, message: object) -> None:
    match at(part, "type"):
        case "text" if at(message, "role") == "assistant":
            text = str(at(part, "text") or "")
            if text.startswith(_GOOSE_TROUBLE) and at(message, "metadata", "inference") is None:
                transcript.error = text.removeprefix(_GOOSE_TROUBLE)
            transcript.say(text)
        case "toolRequest":
            transcript.text = ""
            asked = at(part, "toolCall", "value")
            transcript.begin_call(at(part, "id"), at(asked, "name"), at(asked, "arguments"))
        case "toolResponse":
            result = at(part, "toolResult", "value")
            failed = at(part, "toolResult", "status") != "success" or at(result, "isError") is True
            transcript.end_call(at(part, "id"), texts(at(result, "content")), failed=failed)
        case "error":
            transcript.error = str(at(part, "message") or "an error without words")
        case _:
            pass
