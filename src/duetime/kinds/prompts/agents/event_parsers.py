"""Parsers for the event streams of known programs, each written from the program's real output. Other events are
ignored, and no event is assumed to have a certain shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.kinds.prompts.agent import Spent
from duetime.kinds.prompts.agents.transcript import Transcript, as_list, lookup, number, read_document, text_of

_GOOSE_TROUBLE = "Ran into this error: "
"""Prefix with which goose reports, in place of the model's answer, that there is none."""
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
        transcript.spent = Spent()  # each result counts the whole session
        read_document(transcript, event)
        return
    for part in as_list(lookup(event, "message", "content")):
        if lookup(part, "type") == "tool_use":
            transcript.begin_call(lookup(part, "id"), lookup(part, "name"), lookup(part, "input"))
        elif lookup(part, "type") == "tool_result":
            failed = lookup(part, "is_error") is True
            transcript.end_call(lookup(part, "tool_use_id"), text_of(lookup(part, "content")), failed=failed)


def read_codex(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `codex exec --json`."""
    match event.get("type"):
        case "item.started" | "item.completed" as type_:
            transcript.error = None  # it continued after the error
            _codex_item(transcript, event.get("item"), over=type_ == "item.completed")
        case "turn.completed":
            transcript.ended, transcript.error = True, None
            transcript.add_usage(lookup(event, "usage", "input_tokens"), lookup(event, "usage", "output_tokens"))
        case "turn.failed":
            transcript.error = str(lookup(event, "error", "message") or "its turn failed")
        case "error":
            transcript.error = str(event.get("message") or "an error without words")
        case _:
            pass


def _codex_item(transcript: Transcript, item: object, *, over: bool) -> None:
    kind, id_ = lookup(item, "type"), lookup(item, "id")
    if kind == "agent_message" and over:
        transcript.text = str(lookup(item, "text") or "")
    if kind not in ("mcp_tool_call", "command_execution"):
        return
    name = lookup(item, "tool") if kind == "mcp_tool_call" else "shell"
    if transcript.name_of_call(id_) is None:
        transcript.begin_call(id_, name, lookup(item, "arguments") or lookup(item, "command"))
    if not over:
        return
    status = lookup(item, "status")
    text = (
        text_of(lookup(item, "result", "content"))
        or lookup(item, "error", "message")
        or lookup(item, "aggregated_output")
    )
    transcript.end_call(id_, text or "", failed=status != "completed")
    if status == "declined":
        transcript.deny(name)


def read_gemini(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `gemini -o stream-json`. Text before a tool call is not part of the answer."""
    match event.get("type"):
        case "tool_use":
            transcript.text = ""
            transcript.begin_call(event.get("tool_id"), event.get("tool_name"), event.get("parameters"))
        case "tool_result":
            text = event.get("output") or lookup(event, "error", "message") or ""
            transcript.end_call(event.get("tool_id"), text, failed=event.get("status") != "success")
            if lookup(event, "error", "type") in _NOT_ALLOWED or str(lookup(event, "error", "message")).startswith(
                _OUTSIDE
            ):
                transcript.deny(transcript.name_of_call(event.get("tool_id")))
        case "message" if event.get("role") == "assistant":
            transcript.append_text(str(event.get("content") or ""))
        case "result":
            transcript.ended = True
            transcript.add_usage(lookup(event, "stats", "input_tokens"), lookup(event, "stats", "output_tokens"))
            if event.get("status") != "success":
                transcript.error = str(lookup(event, "error", "message") or "it says that it failed")
        case _:
            pass


def read_opencode(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `opencode run --format json`. Each step begins a new answer; the last one counts."""
    part = event.get("part")
    match event.get("type"):
        case "step_start":
            transcript.text = ""
        case "text":
            transcript.append_text(str(lookup(part, "text") or ""))
        case "tool_use":
            error = lookup(part, "state", "error")
            transcript.begin_call(lookup(part, "callID"), lookup(part, "tool"), lookup(part, "state", "input"))
            transcript.end_call(
                lookup(part, "callID"), error or lookup(part, "state", "output") or "", failed=error is not None
            )
            if str(error).startswith(_FORBIDDEN):
                transcript.deny(lookup(part, "tool"))
        case "step_finish":
            transcript.ended = lookup(part, "reason") != "tool-calls"
            cached = number(lookup(part, "tokens", "cache", "read")) + number(lookup(part, "tokens", "cache", "write"))
            used = number(lookup(part, "tokens", "input")) + cached
            transcript.add_usage(used, lookup(part, "tokens", "output"), lookup(part, "cost"))
        case "error":
            reason = lookup(event, "error", "data", "message") or lookup(event, "error", "name")
            transcript.error = str(reason or "an error without words")
        case _:
            pass


def read_goose(transcript: Transcript, event: Mapping[str, Any]) -> None:
    """Read `goose run --output-format stream-json`. It exits with code 0 even if the model refused to answer."""
    if event.get("type") == "complete":
        transcript.ended = True
        transcript.add_usage(event.get("input_tokens"), event.get("output_tokens"), event.get("cost_usd"))
    elif event.get("type") == "error":
        transcript.error = str(event.get("error") or "an error without words")
    message = event.get("message")
    for part in as_list(lookup(message, "content")):
        _goose_part(transcript, part, message)


def _goose_part(transcript: Transcript, part: object, message: object) -> None:
    match lookup(part, "type"):
        case "text" if lookup(message, "role") == "assistant":
            text = str(lookup(part, "text") or "")
            if text.startswith(_GOOSE_TROUBLE) and lookup(message, "metadata", "inference") is None:
                transcript.error = text.removeprefix(_GOOSE_TROUBLE)
            transcript.append_text(text)
        case "toolRequest":
            transcript.text = ""
            call = lookup(part, "toolCall", "value")
            transcript.begin_call(lookup(part, "id"), lookup(call, "name"), lookup(call, "arguments"))
        case "toolResponse":
            result = lookup(part, "toolResult", "value")
            failed = lookup(part, "toolResult", "status") != "success" or lookup(result, "isError") is True
            transcript.end_call(lookup(part, "id"), text_of(lookup(result, "content")), failed=failed)
        case "error":
            transcript.error = str(lookup(part, "message") or "an error without words")
        case _:
            pass
