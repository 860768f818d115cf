"""Answers about large payloads: what is masked is limited, what was cut is not stored, and few are prepared at once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from duetime.service.masking import MOST_SHOWN, masking_of
from duetime.service.owner_limits import LARGE, LARGE_FOR, SHARE, SHARE_OF_LARGE, OwnerLimits
from tests.support.api import Client

TRIGGER = {"type": "interval", "hours": 1}


def made(ada: Client, *args: str) -> dict[str, Any]:
    body = {"kind": "job", "name": "large", "trigger": TRIGGER, "payload": {"task": "echo", "args": [list(args)]}}
    reply = ada.ask("POST", "/schedules", json=body)
    assert reply.status_code == 201, reply.text
    schedule: dict[str, Any] = reply.json()
    return schedule


def test_an_answer_shows_64_kb_of_a_payload_and_says_what_is_cut(ada: Client) -> None:
    schedule = made(ada, "a" * 40_000, "b" * 100_000, "c" * 90_000)
    for shown in (schedule, ada.ask("GET", f"/schedules/{schedule['id']}").json()):
        [[first, second, third]] = shown["payload"]["args"]
        assert first == "a" * 40_000
        assert second == "b" * (MOST_SHOWN - 40_000 - len("echo")) + "... (cut: 100000 characters in total)"
        assert third == "c" * 100 + "... (cut: 90000 characters in total)"
    small = made(ada, "a" * 60_000)
    assert small["payload"]["args"] == [["a" * 60_000]]


def test_a_text_that_was_cut_is_not_stored(ada: Client) -> None:
    schedule = made(ada, "a" * 200_000, "x")
    path = f"/schedules/{schedule['id']}"
    [[cut, x]] = ada.ask("GET", path).json()["payload"]["args"]
    for texts in ([cut, "y"], [cut], ["y", cut, x], [cut, x]):
        refused = ada.refused("PATCH", path, 422, json={"payload": {"task": "echo", "args": [texts]}})
        assert "was cut when it was shown; give the whole text" in refused["detail"]
    assert ada.ask("PATCH", path, json={"name": "other"}).status_code == 200
    assert ada.ask("PATCH", path, json={"payload": {"task": "echo", "args": [["a" * 200_000, "y"]]}}).status_code == 200
    assert ada.ask("PATCH", path, json={"payload": {"task": "echo", "args": ["anew"]}}).status_code == 200
    assert ada.ask("GET", path).json()["payload"]["args"] == ["anew"]
    own = made(ada, "... (cut: 5 characters in total)")
    assert ada.ask("PATCH", f"/schedules/{own['id']}", json={"payload": own["payload"]}).status_code == 200


@pytest.mark.parametrize("kind", ["job", "prompt", "request", "notification"])
def test_every_kind_shows_no_more_than_that(kind: str) -> None:
    payload = {"body": "password=hunter22 and " * 10_000}
    shown = masking_of(kind).show(payload, 200_000)["body"]
    assert "hunter22" not in shown and len(shown) < MOST_SHOWN + 100 and "(cut: " in shown


def test_an_owner_with_large_answers_has_fewer_slots_for_a_while() -> None:
    async def use() -> None:
        limits = OwnerLimits()
        for owner in ("mallory", "local"):
            limits.answered(owner, LARGE + 1)
        limits.answered("ada", LARGE)
        assert [limits.slot(owner).value for owner in ("mallory", "ada", "local")] == [SHARE_OF_LARGE, SHARE, 24]  # type: ignore[attr-defined]
        limits._large["mallory"] -= LARGE_FOR
        assert limits.slot("mallory").value == SHARE  # type: ignore[attr-defined]

    anyio.run(use)


def test_many_names_in_one_change_are_refused(ada: Client) -> None:
    change = {"action": "pause", "ids": ["nobody"] * 101}
    assert "100" in ada.refused("POST", "/schedules/change", 422, json=change)["detail"]
    ada.ask("POST", "/schedules/change", json={**change, "ids": ["nobody"] * 100})
