"""`emit_event` over stdio: what the event starts is in the answer, and so is how it ended if the sender waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.support.agents import ERAS, call, over_stdio, talk

ORDER = {"event": "shop.order", "data": {"number": 42}}


async def jobs(client: Client) -> None:
    await call(client, "schedule_job", name="orders", task="echo", args=["order {number}"], when="on shop.order")
    large = {"when": "on shop.* where size = large", "name": "large orders"}
    await call(client, "schedule_job", task="echo", args=["x"], **large)


@pytest.mark.later
@pytest.mark.parametrize("era", ERAS)
def test_the_answer_has_the_runs(era: str, tmp_path: Path) -> None:
    async def say(client: Client) -> None:
        await jobs(client)
        first = await call(client, "emit_event", **ORDER, idempotency_key="order-42", wait_seconds=30)
        [run] = first["runs"]
        assert (run["name"], run["status"], run["result"]) == ("orders", "completed", "order 42")
        assert (first["ended"], first["duplicate"], first["note"]) == (True, False, "It starts: orders.")
        again = await call(client, "emit_event", **ORDER, idempotency_key="order-42", wait_seconds=30)
        assert (again["duplicate"], again["runs"], "note" in again) == (True, first["runs"], False)

        await call(client, "pause_schedule", schedule_id="orders")
        paused = await call(client, "emit_event", **ORDER, wait_seconds=30)
        assert [(run["name"], run["status"]) for run in paused["runs"]] == [("orders", "skipped")]
        assert paused["ended"] and paused["note"].startswith("It starts nothing: ")

        lonely = await call(client, "emit_event", event="nobody", wait_seconds=60)
        assert (lonely["ended"], lonely["runs"], lonely["warning_codes"]) == (True, [], ["no_listener"])

    talk(over_stdio(tmp_path, era), say)


def test_who_does_not_wait_is_told_what_it_starts(tmp_path: Path) -> None:
    async def say(client: Client) -> None:
        await jobs(client)
        sent: dict[str, Any] = await call(client, "emit_event", event="shop.order", data={"size": "large"})
        assert sent["note"] == "It starts: orders, large orders."
        assert (sent["runs"], sent["ended"]) == ([], False)

    talk(over_stdio(tmp_path, ERAS[0]), say)


def test_what_waits_is_said_when_the_time_is_up(tmp_path: Path) -> None:
    async def say(client: Client) -> None:
        await call(client, "schedule", name="review", prompt="Review it", agent="inbox", when="on shop.order")
        sent = await call(client, "emit_event", **ORDER, wait_seconds=2)
        assert [run["status"] for run in sent["runs"]] == ["waiting"]
        assert (sent["ended"], sent["reason"]) == (False, "no agent has taken it")

    talk(over_stdio(tmp_path, ERAS[0]), say)
