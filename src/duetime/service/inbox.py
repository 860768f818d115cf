"""The inbox: which messages are unread, and what a person can do with runs that wait for somebody to take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Final

from duetime.engine.clock import MINUTE
from duetime.engine.kind import Caller
from duetime.engine.model import DISMISSED, READ, Run, RunId, RunStatus, Schedule
from duetime.engine.outcome import Completed
from duetime.engine.policy.checkout import hold_of
from duetime.engine.policy.decision import Change, Decision, done, not_possible
from duetime.engine.policy.rows import RunColumn, Writes
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import NO_RUN
from duetime.engine.store import RunQuery
from duetime.engine.validation import Changes
from duetime.service.counts import MOST as COUNTED
from duetime.service.errors import unwrap
from duetime.service.services import Services, pages_of

LATELY: Final = 10_000
"""Latest runs, of all owners, among which messages count as unread; older ones do not."""
_LEASE: Final = 1 * MINUTE


def unread(services: Services, caller: Caller, *, limit: int = 1) -> RunQuery | None:
    """Return the query for the caller's own unread messages; None if nothing carries messages here."""
    store = services.scheduler.store
    if store.messenger is None:
        return None
    lately = RunId(max(0, store.newest_run() - LATELY))
    return RunQuery(
        owner=caller.owner,
        kind=store.messenger.kind,
        status=RunStatus.COMPLETED,
        mark_below=READ,
        above=lately,
        limit=limit,
        count_to=COUNTED,
    )


def unread_count(services: Services, caller: Caller) -> int:
    """Return the number of the caller's unread messages, at most one more than COUNTED."""
    query = unread(services, caller)
    return 0 if query is None else unwrap(services.scheduler.runs(caller, query)).total


def waiting_count(services: Services, caller: Caller) -> int:
    """Return how many of the caller's own runs wait for somebody to take them, at most one more than COUNTED."""
    query = RunQuery(
        owner=caller.owner, free_at=services.scheduler.clock.now(), oldest_first=True, limit=1, count_to=COUNTED
    )
    return unwrap(services.scheduler.runs(caller, query)).total


def mark_messages(services: Services, caller: Caller, ids: Sequence[int], *, dismiss: bool = False) -> int:
    """Mark the caller's own messages as read, or dismiss them: they leave the inbox and stay in the history. Return how
    many were marked."""
    messenger = services.scheduler.store.messenger
    found = (services.scheduler.run(caller, id) for id in dict.fromkeys(ids))
    own = [
        run
        for run in found
        if run is not None and messenger and run.kind == messenger.kind and run.owner == caller.owner
    ]
    results = unwrap(services.scheduler.mark_all(own, DISMISSED if dismiss else READ))
    return sum(isinstance(result, Ok) for result in results)


def mark_all_read(services: Services, caller: Caller) -> int:
    """Mark all of the caller's unread messages as read, and return how many."""
    query, number = unread(services, caller, limit=500), 0
    if query is None:
        return 0
    found: list[Run] = [run for page in pages_of(services.scheduler.runs, caller, query) for run in page.items]
    for result in unwrap(services.scheduler.mark_all(found, READ)):
        number += isinstance(result, Ok)
    return number


def answer_waiting(services: Services, caller: Caller, run_id: int, text: str) -> Result[Run]:
    """Finish a waiting run with a person's answer, as an agent that takes it would."""
    if not text.strip():
        return Err("invalid", "answer: must not be empty; write what the result is", {"field": "answer"})
    taken = services.scheduler.take_run(caller, run_id, _LEASE)
    if isinstance(taken, Err):
        return taken
    outcome = Completed(json.dumps({"text": text.strip()}, ensure_ascii=False))
    return services.scheduler.finish(caller, run_id, outcome, hold=hold_of(taken.value.run))


def hand_over(services: Services, caller: Caller, run_id: int, name: str) -> Result[Schedule]:
    """Give a waiting run to somebody who can be woken, such as an agent, and wake them. What recurs is theirs from now
    on."""
    run = services.scheduler.run(caller, run_id)
    if run is None or services.scheduler.schedule_of(caller, run) is None:
        return NO_RUN
    schedule = services.scheduler.store.get(run.schedule)  # with its own input, which this run need not have
    if schedule is None:
        return NO_RUN
    definition, hooks = schedule.definition, services.hooks(run.kind)
    if run.status != RunStatus.WAITING or run.holder is not None:
        return Err("not_possible", f"it is {'taken' if run.holder else run.status}, so nobody else can be woken for it")
    if name not in hooks.wakeable(definition.owner):
        known = ", ".join(hooks.wakeable(definition.owner)) or "none"
        return Err("invalid", f"agent: {name[:100]!r} cannot be woken from here; there is {known}", {"field": "agent"})
    own = services.scheduler.own_payload(run)
    if own is not None:  # first, since a worker may start the run as soon as the schedule has changed
        input = RunColumn("payload", json.dumps(hooks.handed_to(json.loads(own), name), ensure_ascii=False), run.id)
        services.scheduler.store.change_run(run.id, services.scheduler.clock.now(), partial(_with_input, input))
    payload = hooks.handed_to(json.loads(definition.payload), name)
    changes = Changes(payload=payload, version=definition.version, amid_runs=True)
    return services.scheduler.edit(caller, definition.public_id, changes)


def _with_input(input: RunColumn, change: Change, run: Run) -> Decision:
    """Replace the input of a run that nobody has taken."""
    if run.status != RunStatus.WAITING or run.holder is not None:
        return not_possible("changed", run.status)
    return done(Writes(columns=[input]), run)
