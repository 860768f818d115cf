"""What a prompt may hold, and that a due one waits."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.engine.clock import Instant, SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.policy.options import policy_from_json
from duetime.engine.scheduler import Scheduler
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.sqlite.store import SqliteStore
from tests.support.refusals import refusal_of
from tests.support.waking import prompts_for_nobody

ADA = Caller("ada")


def test_a_prompt_is_filed_under_its_agent() -> None:
    kind = prompts_for_nobody()
    assert kind.prepare({"prompt": "look"}, ADA)[:2] == ({"prompt": "look"}, "inbox")
    whole = {"prompt": "look", "agent": "inbox"}
    assert kind.prepare(whole, ADA)[:2] == (whole, "inbox")
    assert kind.prepare({"prompt": "look", "agent": None}, ADA).payload == {"prompt": "look"}
    assert prompts_for_nobody(default="coder", inboxes=("coder",)).prepare({"prompt": "look"}, ADA).subject == "coder"


def test_its_id_is_its_number() -> None:
    assert prompts_for_nobody().public_id(Instant(0), "once") == "{id}"


@pytest.mark.parametrize(
    ("payload", "field", "words"),
    [
        ({}, "prompt", "must be a non-empty text"),
        ({"prompt": ""}, "prompt", "must be a non-empty text"),
        ({"prompt": " \n"}, "prompt", "must be a non-empty text"),
        ({"prompt": 7}, "prompt", "must be a non-empty text"),
        ({"prompt": "a\0b"}, "prompt", "NUL"),
        ({"prompt": "a\ud800"}, "prompt", "surrogates"),
        ({"prompt": "a", "agent": "coder"}, "agent", "there is no 'coder'; choose from inbox"),
        ({"prompt": "a", "agent": ""}, "agent", "there is no ''"),
        ({"prompt": "a", "agent": ["inbox"]}, "agent", "there is no 'list'"),
        ({"prompt": "a", "shell": "rm"}, "shell", "no such field"),
    ],
)
def test_what_is_refused_names_its_field(payload: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        prompts_for_nobody().prepare(payload, ADA)
    assert refusal.value.field == field


def test_a_prompt_that_becomes_a_reminder_reaches_somebody() -> None:
    store = SqliteStore(":memory:", messenger=MESSENGER)
    store.migrate()
    scheduler = Scheduler(store, {"prompt": prompts_for_nobody()}, SystemClock())
    heard = []
    for chosen in ({}, {"deliver_to": "kitchen"}):
        made = scheduler.create(ADA, NewSchedule("prompt", "tea", "interval", {"hours": 1}, {"prompt": "tea"}, chosen))
        changes = Changes(payload={"prompt": "tea", "remind": True})
        edited = scheduler.edit(ADA, made.definition.public_id, changes)
        heard.append(policy_from_json(edited.definition.policy).deliver_to)
    assert heard == ["reminders", "kitchen"]
    store.close()


@pytest.mark.parametrize("name", ["max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day"])
def test_a_reminder_has_no_agent_to_limit(name: str) -> None:
    with pytest.raises(InvalidInput, match="a reminder wakes no agent") as refusal:
        prompts_for_nobody().prepare({"prompt": "tea", "remind": True, name: 5}, ADA)
    assert refusal.value.field == name


@pytest.mark.parametrize("given", [{}, {"agent": "inbox"}, {"max_runs_per_day": 2}])
@pytest.mark.parametrize("name", ["max_tokens_per_day", "max_dollars_per_day"])
def test_a_limit_of_cost_is_refused_where_nobody_reports_it(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="would limit nothing; give max_runs_per_day, or an agent") as refusal:
        prompts_for_nobody().prepare({"prompt": "tea", **given, name: 5}, ADA)
    assert refusal.value.field == name
    assert prompts_for_nobody().prepare({"prompt": "tea", "max_runs_per_day": 5}, ADA)


def test_a_reminder_that_nobody_would_hear_of_is_refused() -> None:
    """It is sent when it completes, and it never fails: whichever of the two comes second is refused."""
    store = SqliteStore(":memory:", messenger=MESSENGER)
    store.migrate()
    scheduler = Scheduler(store, {"prompt": prompts_for_nobody()}, SystemClock())
    plain, reminds, unheard = {"prompt": "tea"}, {"prompt": "tea", "remind": True}, {"notify_on": "failure"}

    def made(payload: dict[str, Any], policy: dict[str, Any]) -> Any:
        return scheduler.create(ADA, NewSchedule("prompt", "tea", "interval", {"hours": 1}, payload, policy))

    def edited(id: str, **changes: Any) -> Any:
        return scheduler.edit(ADA, id, Changes(**changes))

    prompt = made(plain, {"deliver_to": "kitchen", **unheard}).definition.public_id
    reminder = made(reminds, {"deliver_to": "kitchen", "notify_on": "success"}).definition.public_id
    refusals = [
        refusal_of(made, reminds, unheard),
        refusal_of(edited, prompt, payload=reminds),
        refusal_of(edited, reminder, policy=unheard),
    ]
    for refusal in refusals:
        problem = "a reminder cannot fail, so nothing would ever be sent; leave it out"
        assert refusal.details == {"field": "notify_on", "problem": problem}
        assert refusal.message == "notify_on: a reminder cannot fail, so nothing would ever be sent; leave it out"
    edited(prompt, payload=reminds, policy={"notify_on": None})
    edited(reminder, payload=plain, policy=unheard)
    store.close()
