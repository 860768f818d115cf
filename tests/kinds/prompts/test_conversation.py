"""What a conversation remembers, in memory and on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.kinds.prompts.agents.builtin import messages_from_json, messages_to_json, recent_messages
from duetime.kinds.prompts.chat import ChatSessions


def exchange(number: int) -> list[ModelMessage]:
    """A question, a call, what the tool answered, and the answer."""
    name, id = "schedule_list", f"call_{number}"
    return [
        ModelRequest([UserPromptPart(f"question {number}")]),
        ModelResponse([ToolCallPart(name, {}, tool_call_id=id)]),
        ModelRequest([ToolReturnPart(name, {"total": number}, tool_call_id=id)]),
        ModelResponse([TextPart(f"answer {number}")]),
    ]


HISTORY = [message for number in range(5) for message in exchange(number)]


@pytest.mark.parametrize("most", range(1, 22))
def test_what_is_remembered_begins_with_a_question(most: int) -> None:
    kept = recent_messages(HISTORY, most)
    assert len(kept) == min(most, len(HISTORY)) // 4 * 4
    assert kept == HISTORY[len(HISTORY) - len(kept) :]


def test_messages_survive_the_way_through_json() -> None:
    assert messages_from_json(json.loads(json.dumps(messages_to_json(HISTORY)))) == HISTORY
    odd = messages_to_json([ModelResponse([TextPart("half \ud800 and nul \0")])])
    assert json.dumps(odd, ensure_ascii=False).encode() and odd[0]["parts"][0]["content"] == "half � and nul �"


def test_two_terminals_in_one_conversation_lose_nothing(tmp_path: Path) -> None:
    here, there = ChatSessions(tmp_path / "chats"), ChatSessions(tmp_path / "chats")
    here.add("main", "first", [1], Instant(1))
    there.add("main", "second", [2], Instant(2))
    here.add("main", "third", [3], Instant(3))
    there.add("other", "hello", [4], Instant(2))
    assert here.read("main").messages == [1, 2, 3]
    for number in (1, 2):
        assert here.new("2031-02-10") == f"2031-02-10-{number}"
        here.add(here.new("2031-02-10"), "hello", [5], Instant(0))
    rows = [(each.name, each.first, each.updated) for each in here.all()]
    assert rows[:2] == [("main", "first", 3), ("other", "hello", 2)] and len(rows) == 4
    assert all(path.suffix == ".json" for path in (tmp_path / "chats").iterdir()), "nothing else is left behind"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "x" * 65, "a\0b", "ä"])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--session: "):
        ChatSessions(tmp_path / "chats").add(name, "hello", [], Instant(1))
    assert list(tmp_path.iterdir()) == []


def test_a_conversation_that_others_can_read_is_refused(tmp_path: Path) -> None:
    sessions = ChatSessions(tmp_path / "chats")
    sessions.add("main", "hello", [1], Instant(1))
    (tmp_path / "chats" / "main.json").chmod(0o644)
    with pytest.raises(DuetimeError, match="can be read by others"):
        sessions.read("main")


@pytest.mark.parametrize("spoiled", ["", "{", "[]", '{"messages": 1}', '{"updated": "x", "first": "", "messages": []}'])
def test_a_file_that_holds_no_conversation_is_refused(spoiled: str, tmp_path: Path) -> None:
    sessions = ChatSessions(tmp_path)
    sessions.add("main", "hello", [1], Instant(1))
    (tmp_path / "main.json").write_text(spoiled)
    with pytest.raises(InvalidInput, match="is not a conversation; move it away"):
        sessions.read("main")
