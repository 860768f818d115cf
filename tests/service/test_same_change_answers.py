"""A change of a schedule or of a run: every interface says the same facts, warnings and notes about it, and refuses it
with the same code and reason."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run, RunId, RunStatus
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.rows import Writes
from duetime.engine.validation import NewSchedule
from duetime.service.errors import error_class
from tests.support.answers import FACTS, INTERFACES, Dashboard, Interface, Python, Refusal, Said, Target
from tests.support.cli import Cli
from tests.support.incidents import open_incident
from tests.support.web import Site

OWNER, ADA = Caller(LOCAL), Caller("ada")
BEGUN = Instant(1_790_000_000 * SECOND)
OF_RUNS = ("again", "retry", "stop_run", "stop_after", "resolve", "reopen")
OF_INCIDENTS = ("resolve_incident", "reopen_incident")
OF_SCHEDULES = tuple(name for name in FACTS if name not in (*OF_RUNS, *OF_INCIDENTS, "change_many"))
STARTS = ("run_now", "again", "retry")
STOPS = ("stop", "stop_run", "stop_after")
NOT_ON_PAGES = ("shift", "stop_after")
TABLE = [each for each in product(FACTS, INTERFACES) if each[1] != Dashboard.__name__ or each[0] not in NOT_ON_PAGES]


def make(there: Site, owner: Caller = OWNER, name: str = "same", max_runs: int | None = None) -> str:
    policy = {} if max_runs is None else {"max_runs": max_runs}
    new = NewSchedule("job", name, "cron", {"expression": "0 9 * * *"}, {"task": "echo"}, policy, timezone="UTC")
    created = there.room.scheduler.create(owner, new)
    return created.definition.public_id


def start(there: Site, id: str, owner: Caller = OWNER) -> int:
    """Start a run, which stays pending: nothing works here."""
    run = there.room.scheduler.run_now(owner, id)
    return run.id


def stop(there: Site, run: int, owner: Caller = OWNER) -> None:
    there.room.scheduler.cancel_run(owner, run)


def write(there: Site, run: int, **fields: Any) -> None:
    """Write fields of a run as a worker would."""

    def decide(change: Change, run: Run) -> Decision[Any]:
        return Writes(runs={run.id: run._replace(**fields)}), run

    there.room.store.change_run(RunId(run), there.room.scheduler.clock.now(), decide)


def fail(there: Site, run: int) -> None:
    """Let a run fail for good."""
    write(there, run, status=RunStatus.FAILED, finished=there.room.scheduler.clock.now(), error="it broke")


def ready(there: Site, operation: str, owner: Caller = OWNER, name: str = "same") -> Target:
    """Return what an operation can be used on."""
    id, run = make(there, owner, name, max_runs=2 if operation in ("run_now", "again") else None), 0
    if operation in OF_RUNS or operation in ("stop", "run_now"):
        run = start(there, id, owner)
    if operation in ("run_now", "again", "retry"):
        stop(there, run, owner)
    if operation in ("resolve", "reopen"):
        fail(there, run)
    if operation == "reopen":
        there.room.scheduler.dismiss(owner, run)
    if operation == "stop_after":
        write(there, run, status=RunStatus.RUNNING, started=BEGUN)
    if operation == "restore_schedule":
        there.room.scheduler.cancel(owner, id)
    if operation == "resume":
        there.room.scheduler.pause(owner, id)
    if operation == "change_many":
        return Target(id, others=(make(there, owner), "nothing"))
    if operation in OF_INCIDENTS:
        incident = open_incident(there.room.scheduler, id)
        if operation == "reopen_incident":
            there.room.scheduler.mark_incident(owner, incident)
        return Target(f"incident-{incident.id}")
    return Target(id, run)


def expected_of(operation: str, target: Target, said: Said) -> Said:
    """Return what is said about one target as it is said about another one."""
    if operation in STOPS:
        return said._replace(notes=f"Run {target.run} {said.notes.split(' ', 2)[2]}")
    return said


@pytest.mark.parametrize(("operation", "interface"), TABLE)
def test_a_change(there: Site, on_site: Cli, operation: str, interface: str) -> None:
    first, second = ready(there, operation), ready(there, operation)
    said = Python(there, on_site).do(operation, first)
    assert isinstance(said, Said)
    assert said.codes == (["no_worker"] if operation in STARTS else [])
    assert bool(said.notes) == (operation in ("run_now", "again", *STOPS))
    expected = expected_of(operation, second, said)
    if interface == Dashboard.__name__:  # every page says that nothing works
        expected = expected._replace(codes=["no_worker"])
    assert INTERFACES[interface](there, on_site).do(operation, second, expected) == expected


FINISHED = {
    "pause": "it is cancelled, so it cannot be paused",
    "resume": "it is cancelled, so it cannot be resumed",
    "run_now": "it is cancelled, so it cannot be run",
    "again": "it is cancelled, so it cannot be run",
    "retry": "it is cancelled, so it cannot be retried",
    "stop": "so there is nothing to stop",
    "stop_run": "is cancelled, so there is nothing to stop",
}
"""What cannot be done with a schedule that was cancelled, or with its runs."""


def check(refusal: Said | Refusal, code: str, reason: str = "") -> None:
    assert isinstance(refusal, Refusal), refusal
    assert refusal.code in (None, code)
    assert refusal.exit in (None, error_class(code).exit)
    assert refusal.status in (None, error_class(code).status)
    assert reason[1:] in refusal.message  # a page begins a sentence with a capital letter


@pytest.mark.parametrize(("operation", "interface"), [*product(FINISHED, INTERFACES)])
def test_what_is_over(there: Site, on_site: Cli, operation: str, interface: str) -> None:
    target = ready(there, operation)
    if operation in ("stop", "stop_run"):
        stop(there, target.run)
    there.room.scheduler.cancel(OWNER, target.id)
    check(INTERFACES[interface](there, on_site).do(operation, target), "not_possible", FINISHED[operation])


SINGLE = [each for each in TABLE if each[0] not in ("change_many", "shift")]
"""A change of many reports what it cannot find, and changes the others."""


def has_refusal(operation: str, interface: str) -> bool:
    """Return whether there is a refusal: to cancel and to restore over MCP are changes of many, as a shift is."""
    return (operation, interface) not in (("cancel", "Mcp"), ("restore_schedule", "Mcp")) and operation != "shift"


@pytest.mark.parametrize(("operation", "interface"), [each for each in SINGLE if has_refusal(*each)])
def test_what_is_missing(there: Site, on_site: Cli, operation: str, interface: str) -> None:
    missing = Target("incident-99999" if operation in OF_INCIDENTS else "nothing", 99_999)
    refusal = INTERFACES[interface](there, on_site).do(operation, missing)
    check(refusal, "not_found")
    assert isinstance(refusal, Refusal)
    assert any(each in refusal.message.lower() for each in ("not found", "there is no "))


def seen(there: Site, target: Target) -> tuple[object, ...]:
    store = there.room.store
    return store.find(target.id), store.run(RunId(target.run)), store.incidents("ada", 100)


def has_others(operation: str, interface: str) -> bool:
    """Return whether an operation can be used on what belongs to others: an operator may change their runs."""
    return INTERFACES[interface].knows_callers or operation in OF_SCHEDULES


@pytest.mark.parametrize(
    ("operation", "interface"), [each for each in SINGLE if has_refusal(*each) and has_others(*each)]
)
def test_what_belongs_to_others(there: Site, on_site: Cli, operation: str, interface: str) -> None:
    """Who is no operator does not see it. An operator finds it by its id alone, whatever its owner calls it."""
    target = ready(there, operation, ADA, "of ada")
    before = seen(there, target)
    if INTERFACES[interface].knows_callers:
        check(INTERFACES[interface](there, on_site, "bob").do(operation, target), "not_found")
    else:
        check(INTERFACES[interface](there, on_site).do(operation, Target("of ada")), "not_found", "of ada")
    assert seen(there, target) == before


@pytest.mark.parametrize(
    ("operation", "interface"), [each for each in product(OF_SCHEDULES, INTERFACES) if has_refusal(*each)]
)
def test_a_name_that_several_have(there: Site, on_site: Cli, operation: str, interface: str) -> None:
    """A page finds a schedule by its id alone."""
    name = f"{operation}-{interface}"
    ids = [make(there, name=name) for _ in range(2)]
    refusal = INTERFACES[interface](there, on_site).do(operation, Target(name))
    if interface == Dashboard.__name__:
        check(refusal, "not_found")
        return
    check(refusal, "ambiguous", f"'{name}' could mean")
    assert isinstance(refusal, Refusal)
    assert all(id.split("_")[1] in refusal.message for id in ids)


def test_the_tables_have_every_change() -> None:
    assert {*OF_RUNS, *OF_INCIDENTS, *OF_SCHEDULES, "change_many"} == set(FACTS)
    assert set(INTERFACES.values()) == set(Interface.__subclasses__())
