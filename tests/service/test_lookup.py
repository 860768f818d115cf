"""A schedule is found by what people write: an id, its number, a short id or a name; on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.engine.queries import MOST_NAMED
from duetime.engine.validation import NewSchedule
from duetime.service.lookup import find_schedule
from duetime.service.services import Call
from tests.support.refusals import attempt, refusal_of
from tests.support.stage import Stage
from tests.support.wordings import not_cancelled

ADA, BOB, OPERATOR = Caller("ada"), Caller("bob"), Caller("local", operator=True)


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    url = request.getfixturevalue("clean_postgres_url") if request.param == "postgres" else str(tmp_path / "due.db")
    made = Stage(url)
    yield made
    made.time.close()


def make(stage: Stage, kind: str, name: str, caller: Caller = ADA) -> Schedule:
    payloads: dict[str, dict[str, Any]] = {
        "job": {"task": "echo", "args": [1], "kwargs": {}},
        "prompt": {"prompt": name},
        "notification": {"topic": "home", "message": "hi", "label": name.replace(" ", "-")},
    }
    new = NewSchedule(kind, name, "cron", {"expression": "0 9 * * *"}, payloads[kind])
    made = stage.app.scheduler.create(caller, new)
    return made


def call_of(stage: Stage, caller: Caller) -> Call:
    return Call(stage.app.services, caller, "UTC")


def find(stage: Stage, given: str | int, kind: str | None = None, caller: Caller = ADA) -> str:
    found = attempt(find_schedule, call_of(stage, caller), given, kind)
    return found.code if isinstance(found, DuetimeError) else found.definition.public_id


def test_by_id_number_short_id_and_name(stage: Stage) -> None:
    job, prompt, note = (make(stage, kind, f"My {kind}") for kind in ("job", "prompt", "notification"))
    for made in (job, prompt, note):
        id, number = made.definition.public_id, made.definition.id
        kind = made.definition.kind
        for given in (id, number, str(number), f"#{number}", f" {id} ", made.definition.name, f"MY {kind.upper()}"):
            assert find(stage, given) == find(stage, given, kind) == id, given
        assert find(stage, f"{kind[0]}{number}") == id
    assert find(stage, f"job_{job.definition.id}") == job.definition.public_id
    assert find(stage, note.definition.public_id[:12]) == note.definition.public_id


def test_a_number_is_never_a_name(stage: Stage) -> None:
    made = make(stage, "prompt", "777")
    assert (find(stage, 777, "prompt"), find(stage, "777", "prompt")) == ("not_found", made.definition.public_id)
    assert stage.ada.hears("schedule_cancel", id=777) == not_cancelled(777)


@pytest.mark.parametrize(
    "given", ["", "  ", "nothing", "#", "job_", "scd_0000", "98", 99, -1, 10**40, "a\0b", "x" * 300]
)
def test_what_is_not_there_is_not_found(stage: Stage, given: str | int) -> None:
    make(stage, "job", "backup")
    assert find(stage, given) == "not_found"


def test_what_belongs_to_others_is_not_there(stage: Stage) -> None:
    made = make(stage, "notification", "backup", BOB).definition
    for given in (made.public_id, made.id, made.public_id[:12]):
        assert find(stage, given) == "not_found"
        assert find(stage, given, caller=OPERATOR) == made.public_id
    assert find(stage, "backup") == "not_found"


def test_a_name_finds_an_operators_own_and_an_id_those_of_others(stage: Stage) -> None:
    theirs = make(stage, "job", "nightly-report", BOB).definition
    for kind in (None, "job"):
        answer = refusal_of(find_schedule, call_of(stage, OPERATOR), "nightly-report", kind)
        assert answer.code == "not_found"
        assert answer.message.endswith(f"those of others are found by their id: j{theirs.id} (owner bob)")
    narrowed = refusal_of(
        lambda: find_schedule(call_of(stage, OPERATOR._replace(scopes=("kind:prompt",))), "nightly-report")
    )
    assert "bob" not in narrowed.message, "its scopes do not include this kind"
    assert find(stage, f"j{theirs.id}", caller=OPERATOR) == theirs.public_id
    mine = make(stage, "job", "Nightly-Report", OPERATOR).definition
    assert find(stage, "nightly-report", caller=OPERATOR) == mine.public_id
    assert find(stage, "nightly-report", caller=BOB) == theirs.public_id


def test_a_short_id_never_hides_a_name(stage: Stage) -> None:
    first = make(stage, "job", "backup")
    short = f"j{first.definition.id}"
    assert find(stage, f"p{first.definition.id}") == "not_found", "the letter is that of the kind"
    assert find(stage, short, caller=BOB) == "not_found"
    assert find(stage, short.upper()) == first.definition.public_id, "whatever its case"
    second = make(stage, "job", short)
    assert find(stage, short) == "ambiguous"
    assert find(stage, second.definition.public_id) == second.definition.public_id
    third = make(stage, "job", f"J{second.definition.id}")
    assert find(stage, f"J{second.definition.id}") == third.definition.public_id, "a name comes first"


def test_several_matches_are_answered_with_the_candidates(stage: Stage) -> None:
    job, prompt = make(stage, "job", "backup"), make(stage, "prompt", "backup")
    found = refusal_of(lambda: find_schedule(call_of(stage, ADA), "backup"))
    rule = "every day at 09:00 (America/Los_Angeles)"
    named = [
        {"id": each.definition.public_id, "kind": each.definition.kind, "name": "backup", "reads_as": rule}
        for each in (job, prompt)
    ]
    assert f"(job 'backup', {rule})" in found.message
    assert (found.code, found.details["candidates"]) == ("ambiguous", named)
    assert find(stage, "backup", "job") == job.definition.public_id  # only one of the kind that is meant
    for _ in range(MOST_NAMED):
        make(stage, "job", "backup")
    many = refusal_of(lambda: find_schedule(call_of(stage, ADA), "backup"))
    assert len(many.details["candidates"]) == MOST_NAMED and "more than" in many.message


def test_the_name_as_written_and_what_still_fires_come_first(stage: Stage) -> None:
    lower, upper = make(stage, "job", "backup"), make(stage, "job", "Backup")
    assert find(stage, "Backup") == upper.definition.public_id
    stage.app.scheduler.cancel(ADA, upper.definition.public_id)
    assert find(stage, "Backup") == lower.definition.public_id
    stage.app.scheduler.cancel(ADA, lower.definition.public_id)
    assert find(stage, "Backup") == upper.definition.public_id


def test_another_kind_is_told(stage: Stage) -> None:
    prompt = make(stage, "prompt", "tidy up").definition
    for given in (prompt.public_id, "tidy up"):
        found = refusal_of(find_schedule, call_of(stage, ADA), given, "job")
        assert found.code == "not_found"
        assert found.details["found"] == {"id": prompt.public_id, "kind": "prompt", "name": "tidy up"}


def test_a_deleted_one_is_found_by_its_id_for_its_history(stage: Stage) -> None:
    made = make(stage, "job", "backup").definition
    stage.app.scheduler.delete(ADA, made.public_id)
    for given in (made.public_id, made.id, "backup"):
        assert find(stage, given) == "not_found"
    for by_id in (made.public_id, made.id):
        find_schedule(call_of(stage, ADA), by_id, deleted=True)
    refusal_of(lambda: find_schedule(call_of(stage, BOB), made.public_id, deleted=True))


def test_a_name_costs_one_lookup_in_an_index(stage: Stage) -> None:
    """The plan is asked for what `find_schedule` searches, with the statements that it sends."""
    from duetime.engine.store import ScheduleQuery
    from duetime.stores.search import schedule_page

    make(stage, "job", "backup")
    for query in (ScheduleQuery(owner="ada", name="backup", status="living"), ScheduleQuery(name="backup")):
        statement, values = schedule_page(query)
        if stage.app.store.url.startswith("postgres"):
            continue  # the planner scans a table of one row; the index is the same
        plan = stage.app.store._rows(f"EXPLAIN QUERY PLAN {statement}", values)  # type: ignore[attr-defined]
        assert any("schedules_by_name" in str(row) for row in plan), plan


def test_tools_take_names_and_numbers_and_name_the_tool_for_another_kind(stage: Stage) -> None:
    job, prompt = make(stage, "job", "backup").definition, make(stage, "prompt", "tidy up").definition
    ada = stage.ada
    assert ada.knows("job_status", job_id="Backup")["job_id"] == job.public_id
    assert ada.knows("job_status", job_id=job.id)["job_id"] == job.public_id
    wrong = ada.knows("job_status", job_id="tidy up")
    assert wrong["error"] == "Job not found: tidy up" and f"{prompt.id} is a prompt" in wrong["hint"]
    wrong = ada.knows("cancel_job", job_id=f"#{prompt.id}")
    assert wrong["cancelled"] is False and wrong["hint"].endswith(": schedule_cancel takes it.")
    assert "error" not in wrong
    wrong = ada.knows("schedule_cancel", id=job.id)
    assert wrong["error"] == not_cancelled(job.id)
    assert wrong["hint"] == f"{job.public_id} is a job (backup): cancel_job takes it."
    assert (
        ada.hears("schedule_edit", id="tidy up", prompt="tidy it") == f'Updated task #{prompt.id}: prompt → "tidy it"'
    )
    assert ada.hears("prompt_result", id=f"#{prompt.id}").startswith(f"Task #{prompt.id} has not run yet")
    assert ada.hears("schedule_cancel", id=f"#{prompt.id}") == f"Cancelled task #{prompt.id}."
    assert ada.knows("cancel_job", job_id="backup") == {"cancelled": True, "job_id": job.public_id}
    make(stage, "job", "twin"), make(stage, "job", "twin")
    several = ada.knows("cancel_job", job_id="twin")
    assert several["cancelled"] is False and len(several["candidates"]) == 2
