"""What a prompt may hold, and that a due one waits."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.core.clock import Instant, SystemClock
from duetime.core.drafting import Changes, NewSchedule
from duetime.core.errors import InvalidInput
from duetime.core.kind import Caller
from duetime.core.policy.values import policy_from_json
from duetime.core.result import Ok
from duetime.core.scheduler import Scheduler
from duetime.kinds.prompt import PromptKind
from duetime.stores.sqlite import SqliteStore

ADA = Caller("ada")


def test_a_prompt_is_filed_under_its_agent() -> None:
    kind = PromptKind()
    assert kind.prepare({"prompt": "look"}, ADA)[:2] == ({"prompt": "look"}, "inbox")
    whole = {"prompt": "look", "agent": "inbox"}
    assert kind.prepare(whole, ADA)[:2] == (whole, "inbox")
    assert kind.prepare({"prompt": "look", "agent": None}, ADA).payload == {"prompt": "look"}
    assert PromptKind(default="coder", inboxes=("coder",)).prepare({"prompt": "look"}, ADA).subject == "coder"


def test_its_id_is_its_number() -> None:
    assert PromptKind().public_id(Instant(0), "once") == "{id}"


@pytest.mark.parametrize(
    ("payload", "field", "words"),
    [
        ({}, "prompt", "must be a text"),
        ({"prompt": ""}, "prompt", "must be a text"),
        ({"prompt": " \n"}, "prompt", "must be a text"),
        ({"prompt": 7}, "prompt", "must be a text"),
        ({"prompt": "a\0b"}, "prompt", "NUL"),
        ({"prompt": "a\ud800"}, "prompt", "surrogates"),
        ({"prompt": "a", "agent": "coder"}, "agent", "there is no 'coder'; there is inbox"),
        ({"prompt": "a", "agent": ""}, "agent", "there is no ''"),
        ({"prompt": "a", "agent": ["inbox"]}, "agent", "there is no 'list'"),
        ({"prompt": "a", "shell": "rm"}, "shell", "no such part"),
    ],
)
def test_what_is_refused_names_its_field(payload: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        PromptKind().prepare(payload, ADA)
    assert refusal.value.field == field


def test_a_prompt_that_becomes_a_reminder_reaches_somebody() -> None:
    store = SqliteStore(":memory:")
    store.migrate()
    scheduler = Scheduler(store, {"prompt": PromptKind()}, SystemClock())
    heard = []
    for chosen in ({}, {"deliver_to": "kitchen"}):
        made = scheduler.create(ADA, NewSchedule("prompt", "tea", "interval", {"hours": 1}, {"prompt": "tea"}, chosen))
        assert isinstance(made, Ok)
        changes = Changes(payload={"prompt": "tea", "remind": True})
        edited = scheduler.edit(ADA, made.value.definition.public_id, changes)
        assert isinstance(edited, Ok)
        heard.append(policy_from_json(edited.value.definition.policy).deliver_to)
    assert heard == ["reminders", "kitchen"]
    store.close()
