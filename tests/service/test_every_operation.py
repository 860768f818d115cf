"""Every operation works for every kind over every interface. The table is generated: a new kind, operation or interface
has to fill its cells, or be named in NOT_APPLICABLE."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from duetime.engine.clock import MINUTE
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run, RunId, RunStatus, Schedule, ScheduleState
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.gates import GateGift
from duetime.engine.policy.rows import Writes
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds import load_specs
from duetime.service.presenters import instant_view
from tests.support.cli import Cli
from tests.support.incidents import open_incident
from tests.support.interfaces import CRON, EDITS, OTHER_CRON, PAYLOADS, Interface, Mcp, Shown
from tests.support.web import Site

OPERATIONS = [name for name in vars(Interface) if not name.startswith("_")]
INTERFACES = {each.__name__.lower(): each for each in Interface.__subclasses__()}
NOT_APPLICABLE = {
    *(("create", "request", name) for name in ("mcp", "commandline", "dashboard")),
    *(("show", kind, "mcp") for kind in load_specs() if kind != "job"),
    *(
        (operation, kind, "dashboard")
        for operation in ("shift", "delete_finished", "stop_after", "history_by_status")
        for kind in load_specs()
    ),
}
"""Programs make requests, by the HTTP API, the API of QStash and Python. Agents have a tool for a single job; of other
kinds they see lists. Pages select by one status at a time, and change what a person has selected. Everything else is
possible everywhere."""
TABLE = [cell for cell in product(OPERATIONS, load_specs(), INTERFACES) if cell not in NOT_APPLICABLE]
OWNER = Caller(LOCAL)


def make(there: Site, kind: str, cron: str = CRON, **policy: Any) -> str:
    new = NewSchedule(kind, "same", "cron", {"expression": cron}, PAYLOADS[kind], policy)
    return there.room.scheduler.create(OWNER, new).definition.public_id


def started(there: Site, id: str, *, ended: bool = False) -> int:
    """Start a run by hand. Nothing works here, so that it stays pending, unless it is ended by being stopped."""
    run = there.room.scheduler.run_now(OWNER, id)
    if ended:
        there.room.scheduler.cancel_run(OWNER, run.id)
    return run.id


def dead(there: Site, kind: str) -> Run:
    """Make a dead letter."""
    store, now = there.room.store, there.room.scheduler.clock.now()

    def decide(change: Change, run: Run) -> Decision[Any]:
        broken = run._replace(status=RunStatus.FAILED, finished=now, error="it broke")
        return Writes(runs={run.id: broken}), broken

    made = store.change_run(RunId(started(there, make(there, kind), ended=True)), now, decide)
    run: Run = made
    return run


def are_dead(there: Site, kind: str) -> set[int]:
    return {run.id for run in there.room.store.runs(RunQuery(kind=kind, status="dead", limit=1000)).items}


def schedules(there: Site, kind: str) -> set[str]:
    found = there.room.store.search(ScheduleQuery(kind=kind, limit=1000)).items
    return {each.definition.public_id for each in found}


def stored(there: Site, id: str) -> Schedule:
    found = there.room.store.find(id)
    assert found is not None
    return found


def runs(there: Site, id: str) -> list[Run]:
    return there.room.store.runs(RunQuery(schedule=stored(there, id).definition.id)).items


@pytest.mark.filterwarnings("ignore:nothing fires yet")
@pytest.mark.parametrize(("operation", "kind", "interface"), TABLE)
def test_every_operation(there: Site, on_site: Cli, operation: str, kind: str, interface: str) -> None:
    reached = INTERFACES[interface](there, on_site)
    CHECKS[operation](there, reached, kind)


def check_create(there: Site, reached: Interface, kind: str) -> None:
    before = schedules(there, kind)
    reached.create(kind)
    assert len(schedules(there, kind) - before) == 1


def check_edit(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    reached.edit(kind, id)
    definition = stored(there, id).definition
    payload = json.loads(definition.payload)
    assert {name: payload[name] for name in EDITS[kind]} == EDITS[kind]
    assert json.loads(definition.trigger)["expression"] == OTHER_CRON and definition.version == 2


def check_pause(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    reached.pause(kind, id)
    definition, progress = stored(there, id)
    assert (progress.state, progress.note) == (ScheduleState.PAUSED, "holiday")
    assert definition.resume_at is not None


def check_resume(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    there.room.scheduler.pause(OWNER, id)
    reached.resume(kind, id)
    assert stored(there, id).progress.state == ScheduleState.ACTIVE


def check_cancel(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    reached.cancel(kind, id)
    assert stored(there, id).progress.state == ScheduleState.CANCELLED


def check_delete(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    reached.delete(kind, id)
    assert stored(there, id).progress.state == ScheduleState.DELETED


def check_restore_schedule(there: Site, reached: Interface, kind: str) -> None:
    for end in (there.room.scheduler.cancel, there.room.scheduler.delete):
        id = make(there, kind)
        end(OWNER, id)
        reached.restore_schedule(kind, id)
        progress = stored(there, id).progress
        assert progress.state == ScheduleState.ACTIVE and progress.next is not None
        there.room.scheduler.delete(OWNER, id)


def check_shift(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    reached.shift(kind, id)
    assert json.loads(stored(there, id).definition.trigger)["expression"] == OTHER_CRON


def check_delete_finished(there: Site, reached: Interface, kind: str) -> None:
    over, living = make(there, kind), make(there, kind)
    there.room.scheduler.cancel(OWNER, over)
    reached.delete_finished(kind, older_than="1h")
    assert stored(there, over).progress.state == ScheduleState.CANCELLED, "it has changed since"
    reached.delete_finished(kind)
    assert stored(there, over).progress.state == ScheduleState.DELETED
    assert stored(there, living).progress.state == ScheduleState.ACTIVE


def check_run_now(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    reached.run_now(kind, id)
    [run] = runs(there, id)
    assert (run.status, run.cause) == (RunStatus.PENDING, "manual")


def check_run_by_force(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind, only_if="echo('x') | changed()", overlap="allow")
    reached.run_now(kind, id)
    reached.run_by_force(kind, id)
    gifts = [there.room.store.gate_gift(run.id) for run in sorted(runs(there, id), key=lambda run: run.id)]
    assert gifts == [None, GateGift(is_forced=True)], "the first one is checked by its worker"


def check_stop(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    run = started(there, id)
    reached.stop(kind, id)
    [stopped] = runs(there, id)
    assert (stopped.id, stopped.status) == (run, RunStatus.CANCELLED)
    progress = stored(there, id).progress
    assert progress.state == ScheduleState.ACTIVE and progress.next is not None, "the schedule goes on"


def check_stop_run(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    reached.stop_run(kind, started(there, id))
    assert [run.status for run in runs(there, id)] == [RunStatus.CANCELLED]
    assert stored(there, id).progress.state == ScheduleState.ACTIVE


def check_stop_after(there: Site, reached: Interface, kind: str) -> None:
    store, now = there.room.store, there.room.scheduler.clock.now()

    def begin(change: Change, run: Run) -> Decision[Any]:
        return Writes(runs={run.id: run._replace(status=RunStatus.RUNNING, started=now)}), run

    id = make(there, kind)
    run = RunId(started(there, id))
    store.change_run(run, now, begin)
    reached.stop_after(kind, run)
    request = store.stop_requests([run]).get(run)
    assert request is not None and request.deadline == now + 10 * MINUTE
    assert [(each.status, each.stop) for each in runs(there, id)] == [(RunStatus.RUNNING, 0)], (
        "it has not been asked yet"
    )


def check_retry(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    run = started(there, id, ended=True)
    reached.retry(kind, run)
    [again] = runs(there, id)
    assert (again.id, again.status) == (run, RunStatus.PENDING)


def check_resolve(there: Site, reached: Interface, kind: str) -> None:
    run = dead(there, kind)
    reached.resolve(kind, run.id)
    assert run.id not in are_dead(there, kind)


def check_resolve_matching(there: Site, reached: Interface, kind: str) -> None:
    run = dead(there, kind)
    reached.resolve_matching(kind, "it BROKE")
    assert run.id not in are_dead(there, kind)


def check_reopen(there: Site, reached: Interface, kind: str) -> None:
    run = dead(there, kind)
    there.room.scheduler.dismiss(OWNER, run.id)
    reached.reopen(kind, run.id)
    assert run.id in are_dead(there, kind)


def check_attention(there: Site, reached: Interface, kind: str) -> None:
    incident = open_incident(there.room.scheduler, make(there, kind))
    assert f"incident-{incident.id}" in reached.attention(kind)
    there.room.scheduler.mark_incident(OWNER, incident)
    assert f"incident-{incident.id}" not in reached.attention(kind)


def check_resolve_incident(there: Site, reached: Interface, kind: str) -> None:
    incident = open_incident(there.room.scheduler, make(there, kind))
    reached.resolve_incident(kind, f"incident-{incident.id}")
    [resolved] = there.room.store.incidents_of((), [incident.id])
    assert resolved.resolved is not None and resolved.due is None
    assert resolved.actor is not None or isinstance(reached, Mcp), "who did it; the agent of this test has no name"


def check_reopen_incident(there: Site, reached: Interface, kind: str) -> None:
    incident = open_incident(there.room.scheduler, make(there, kind))
    there.room.scheduler.mark_incident(OWNER, incident)
    reached.reopen_incident(kind, f"incident-{incident.id}")
    [again] = there.room.store.incidents_of((), [incident.id])
    assert again.resolved is None and again.due is not None and again.actor is None


def check_history(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    assert reached.history(kind, id) == set()
    run = started(there, id, ended=True)
    assert reached.history(kind, id) == {run}


def check_history_by_status(there: Site, reached: Interface, kind: str) -> None:
    failed = dead(there, kind)
    definition = stored(there, str(there.room.store.public_ids([failed.schedule])[failed.schedule])).definition
    cancelled = started(there, definition.public_id, ended=True)
    pending = started(there, definition.public_id)
    assert reached.history_by_status(kind, definition.public_id) == {failed.id, cancelled}
    there.room.scheduler.cancel_run(OWNER, pending)


def check_list(there: Site, reached: Interface, kind: str) -> None:
    id, other = make(there, kind), make(there, "job" if kind != "job" else "prompt")
    assert id in (found := reached.list(kind)) and other not in found


def check_show(there: Site, reached: Interface, kind: str) -> None:
    schedule = stored(there, make(there, kind))
    assert schedule.progress.next is not None
    expected = Shown("same", "every day at 09:00 (UTC)", instant_view(schedule.progress.next, "UTC") or "")
    assert reached.show(kind, schedule.definition.public_id) == expected


def check_upcoming(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind, "* * * * *")
    assert id in reached.upcoming(kind)
    there.room.scheduler.delete(OWNER, id)


def check_preview(there: Site, reached: Interface, kind: str) -> None:
    id = make(there, kind)
    assert reached.preview(kind, id) == {"10:00"}
    assert stored(there, id).definition.version == 1, "nothing was changed"


CHECKS = {name.removeprefix("check_"): check for name, check in list(vars().items()) if name.startswith("check_")}


def test_the_table_is_complete() -> None:
    assert set(PAYLOADS) == set(EDITS) == set(load_specs())
    assert set(INTERFACES) == {"mcp", "http", "commandline", "dashboard", "python"}
    assert set(CHECKS) == set(OPERATIONS)
    for name, operation in product(INTERFACES, OPERATIONS):
        assert not getattr(getattr(INTERFACES[name], operation), "__isabstractmethod__", False)
