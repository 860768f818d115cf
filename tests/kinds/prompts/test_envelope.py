"""A long answer is kept within a result's bounds: a bit of every part, never a fragment of the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duetime.engine.encoding import LIMIT
from duetime.engine.policy.follow_ups import result_text
from duetime.kinds.prompts.agent import AgentReply, Spent
from duetime.kinds.prompts.runner import LEAST, encode_reply

SPENT = Spent(input_tokens=70, output_tokens=30, dollars=0.5)


def calls(count: int, size: int = 1000) -> list[dict[str, Any]]:
    return [{"name": f"tool_{number}", "result": "x" * size} for number in range(count)]


def read(reply: AgentReply) -> dict[str, Any]:
    text = encode_reply(reply, "coder")
    assert len(text.encode()) <= LIMIT
    parts: dict[str, Any] = json.loads(text)
    assert (parts["agent"], parts.get("usage", {}).get("dollars")) == ("coder", reply.spent.dollars or None)
    return parts


def test_what_fits_is_kept_as_it_is() -> None:
    reply = AgentReply("done", {"ok": True}, calls(3), ["Bash"], SPENT, 0)
    parts = read(reply)
    assert parts["text"] == "done" and parts["outcome"] == {"ok": True} and parts["tool_calls"] == calls(3)
    assert "earlier_calls" not in parts
    assert parts["denied"] == ["Bash"] and parts["exit_code"] == 0


def test_many_calls_leave_the_text_alone() -> None:
    reply = AgentReply("Everything is fine.", {"ok": True}, calls(100), spent=SPENT)
    parts = read(reply)
    assert parts["text"] == "Everything is fine." and parts["outcome"] == {"ok": True}
    latest = parts["tool_calls"]
    assert latest == calls(100)[-len(latest) :] and parts["earlier_calls"] == 100 - len(latest)
    assert len(latest) * 1000 > LIMIT - LEAST, "no more of them is left out than has to be"
    assert result_text(encode_reply(reply, "coder")) == "Everything is fine."


def test_calls_that_the_agent_left_out_itself_are_counted_too() -> None:
    parts = read(AgentReply("fine", tool_calls=calls(100), earlier_calls=200, spent=SPENT))
    assert parts["earlier_calls"] == 300 - len(parts["tool_calls"])
    whole = read(AgentReply("fine", tool_calls=calls(3), earlier_calls=200, spent=SPENT))
    assert (whole["earlier_calls"], whole["tool_calls"]) == (200, calls(3))


def test_a_tool_may_have_any_name() -> None:
    odd = [{"name": "(200 earlier calls)"}, *calls(100)]
    parts = read(AgentReply("fine", tool_calls=odd, spent=SPENT))
    assert parts["earlier_calls"] == 101 - len(parts["tool_calls"]), "it is one call like any other"


def test_a_long_text_is_cut_where_people_stop_to_read() -> None:
    reply = AgentReply("A" * 70_000, {"ok": True}, calls(5), spent=SPENT)
    parts = read(reply)
    assert parts["text"].startswith("A" * 40_000) and parts["text"].endswith("A [… cut]")
    assert parts["outcome"] == {"ok": True} and parts["tool_calls"] == calls(5)


def test_everything_is_long() -> None:
    reply = AgentReply("A" * 10**6, ["B" * 1000] * 1000, calls(100), ["C" * 10**6] * 1000, SPENT)
    parts = read(reply)
    assert parts["text"].startswith("A" * 10_000) and parts["tool_calls"][-1] == calls(100)[-1]
    assert parts["outcome"]["cut"] is True and parts["outcome"]["text"].startswith('["BBB')


@pytest.mark.parametrize("letter", ["\x01", '"', "é", "\U0001f600", "\ud800", "\0"])
def test_letters_that_need_more_room_than_they_seem_to(letter: str) -> None:
    text, dozen = letter * 100_000, [{"name": letter * 900, "result": letter * 900}] * 100
    assert read(AgentReply(text, text, dozen, [text] * 30, SPENT))["text"].endswith(" [… cut]")
    assert read(AgentReply("short", tool_calls=dozen, spent=SPENT))["text"] == "short"
    assert read(AgentReply("short", outcome=text, spent=SPENT))["outcome"]["cut"] is True


def test_at_the_edge_it_is_whole_or_marked() -> None:
    shown = [
        (text, read(AgentReply(text, spent=SPENT))["text"]) for text in ("x" * n for n in range(LIMIT - 200, LIMIT))
    ]
    whole = [text == said for text, said in shown]
    assert whole == sorted(whole, reverse=True) and any(whole) and not all(whole)
    assert all(said.endswith("x [… cut]") and len(said) > LIMIT - 500 for text, said in shown if text != said)
