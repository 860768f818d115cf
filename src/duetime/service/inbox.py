"""The inbox: which messages are unread, and what a person can do with runs that wait for somebody to take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, get_args

from duetime.engine.clock import MINUTE
from duetime.engine.encoding import encode_whole
from duetime.engine.kind import Caller
from duetime.engine.model import DISMISSED, READ, Run, RunId, RunStatus, Schedule
from duetime.engine.outcome import Completed
from duetime.engine.policy.checkout import hold_of
from duetime.engine.queries import NO_RUN, expected
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scopes import WRITE
from duetime.engine.store import RunQuery
from duetime.engine.validation import Changes
from duetime.service.errors import refuse, unwrap
from duetime.service.presenters import View, message_shape
from duetime.service.services import Services, pages_of
from duetime.service.text import COUNTED

LATELY: Final = 5_000
"""Number of latest messages of an owner that can be unread; older ones count as read, so that counting stays cheap."""
MOST_MARKED: Final = 1_000
"""Maximum number of messages that one call names by id."""
_PAGE: Final = 500
_LEASE: Final = 1 * MINUTE
Mark = Literal["read", "dismiss", "restore"]
"""`restore` undoes `dismiss`: the message returns to the inbox, marked as read."""
Show = Literal["kept", "unread", "dismissed"]
"""Which messages to show: those that were not dismissed, the caller's unread ones, or dismissed ones."""


def messages(
    services: Services, caller: Caller, show: Show = "kept", *, topic: str | None = None, owner: str | None = None
) -> RunQuery | None:
    """Return the query for messages; None if no kind delivers messages here. `owner` limits it to this owner."""
    _check_word("show", show, Show)
    store = services.scheduler.store
    if store.messenger is None:
        return None
    # The topic of the message itself: its schedule may have a different one now, and a run may have its own input.
    named = "" if topic is None else encode_whole({"topic": topic})[1:-1]
    query = RunQuery(owner=owner, kind=store.messenger.kind, status=RunStatus.COMPLETED, in_result=named)
    if show == "unread":
        return replace(query, owner=caller.owner, mark_below=READ, above=_long_ago(services, caller))
    return replace(query, mark_from=DISMISSED) if show == "dismissed" else replace(query, mark_below=DISMISSED)


def _long_ago(services: Services, caller: Caller) -> RunId:
    """Return the latest of the caller's messages that count as read in any case."""
    store = services.scheduler.store
    return RunId(0) if store.messenger is None else store.latest_but(caller.owner, store.messenger.kind, LATELY)


def message_views(services: Services, caller: Caller, runs: Sequence[Run], zone: str) -> list[View]:
    """Return messages as all interfaces show them, each with its mark: unread, read or dismissed."""
    ids, long_ago = services.scheduler.store.public_ids([run.schedule for run in runs]), _long_ago(services, caller)

    def mark(run: Run) -> str:
        if run.stop >= DISMISSED:
            return "dismissed"
        return "read" if run.stop or (run.owner == caller.owner and run.id <= long_ago) else "unread"

    about = [{"run_id": run.id, "schedule": ids.get(run.schedule), "mark": mark(run)} for run in runs]
    return [each | message_shape(run, zone, caller.depth) for each, run in zip(about, runs, strict=True)]


def unread_count(services: Services, caller: Caller) -> int:
    """Return the number of the caller's unread messages, at most one more than COUNTED."""
    query = messages(services, caller, "unread")
    if query is None:
        return 0
    return unwrap(services.scheduler.runs(caller, replace(query, limit=1, count_to=COUNTED))).total


def waiting_count(services: Services, caller: Caller) -> int:
    """Return how many of the caller's own runs wait for somebody to take them, at most one more than COUNTED."""
    query = RunQuery(
        owner=caller.owner, free_at=services.scheduler.clock.now(), oldest_first=True, limit=1, count_to=COUNTED
    )
    return unwrap(services.scheduler.runs(caller, query)).total


def mark_messages(services: Services, caller: Caller, ids: Sequence[int], mark: Mark = "read") -> int:
    """Mark the caller's own messages as read, dismiss them or restore them. Dismissed ones leave the inbox and stay in
    the history. Return how many were marked."""
    _refuse_runs(caller)
    _check_word("mark", mark, Mark)
    if len(ids) > MOST_MARKED:
        raise refuse("invalid", f"ids: at most {MOST_MARKED:,}", "ids")
    messenger = services.scheduler.store.messenger
    found = (services.scheduler.run(caller, id) for id in dict.fromkeys(ids))
    kind = None if messenger is None else messenger.kind
    own = [run for run in found if run is not None and (run.kind, run.owner) == (kind, caller.owner)]
    as_ = DISMISSED if mark == "dismiss" else READ
    results = unwrap(services.scheduler.mark_all(caller, own, as_, undo=mark == "restore"))
    return sum(isinstance(result, Ok) for result in results)


def _check_word(field: str, given: str, words: object) -> None:
    if given not in get_args(words):
        raise refuse("invalid", f"{field}: must be one of {', '.join(get_args(words))}", field)


def _refuse_runs(caller: Caller) -> None:
    if caller.depth > 0:
        raise refuse("run_token", "an agent's run cannot mark the messages of a person; ask a person to do it")


def mark_all_read(services: Services, caller: Caller) -> int:
    """Mark all of the caller's unread messages as read, and return how many."""
    _refuse_runs(caller)
    query, number = messages(services, caller, "unread"), 0
    if query is None:
        return 0
    for page in pages_of(services.scheduler.runs, caller, replace(query, limit=_PAGE, count_to=0)):
        results = unwrap(services.scheduler.mark_all(caller, page.items, READ))
        number += sum(isinstance(result, Ok) for result in results)
    return number


def answer_waiting(services: Services, caller: Caller, run_id: int, text: str) -> Result[Run]:
    """Finish a waiting run with a person's answer, as an agent that takes the run would."""
    if not text.strip():
        return Err("invalid", "answer: must not be empty; write what the result is", {"field": "answer"})
    taken = services.scheduler.take_run(caller, run_id, _LEASE)
    if isinstance(taken, Err):
        return taken
    outcome = Completed(json.dumps({"text": text.strip()}, ensure_ascii=False))
    return services.scheduler.finish(caller, run_id, outcome, hold=hold_of(taken.value.run))


@expected
def hand_over(services: Services, caller: Caller, run_id: int, name: str) -> Result[Schedule]:
    """Assign a waiting run to somebody who can be woken, such as an agent, and wake them. A recurring schedule is
    theirs from now on."""
    run = services.scheduler.run(caller, run_id)
    if run is None or services.scheduler.schedule_of(caller, run) is None:
        return NO_RUN
    schedule = services.scheduler.store.get(run.schedule)  # with the schedule's input, which may differ from the run's
    if schedule is None:
        return NO_RUN
    definition, hooks = schedule.definition, services.hooks(run.kind)
    if run.status != RunStatus.WAITING or run.holder is not None:
        return Err("not_possible", f"it is {'taken' if run.holder else run.status}, so nobody else can be woken for it")
    if name not in hooks.wakeable(definition.owner):
        known = ", ".join(hooks.wakeable(definition.owner)) or "none"
        words = f"agent: {name[:100]!r} cannot be woken from here; choose from {known}"
        return Err("invalid", words, {"field": "agent"})
    payload = hooks.handed_to(json.loads(definition.payload), name)
    services.scheduler.check_scopes(caller, WRITE, definition._replace(payload=json.dumps(payload)))
    own = services.scheduler.own_input(run).payload
    if own is not None:  # first, because a worker may start the run as soon as the schedule has changed
        input = json.dumps(hooks.handed_to(json.loads(own), name), ensure_ascii=False)
        if isinstance(changed := services.scheduler.replace_input(caller, run.id, input), Err):
            return changed
    changes = Changes(payload=payload, version=definition.version, amid_runs=True)
    return services.scheduler.edit(caller, definition.public_id, changes)
