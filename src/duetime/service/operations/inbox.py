"""The inbox: which messages are unread, and what a person can do with runs that wait for somebody to take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, get_args

from duetime.engine.clock import MINUTE
from duetime.engine.encoding import encode_whole
from duetime.engine.errors import Refused
from duetime.engine.model import DISMISSED, READ, Run, RunId, RunStatus, Schedule
from duetime.engine.outcome import Completed
from duetime.engine.policy.checkout import hold_of
from duetime.engine.queries import no_run
from duetime.engine.scopes import WRITE
from duetime.engine.store import Page, RunQuery
from duetime.engine.validation import Changes
from duetime.engine.value_class import dataclass
from duetime.service.errors import refuse
from duetime.service.operations.declaration import Answer, Field, OperationRequest, PagedRequest, check_type
from duetime.service.operations.history import ShowRun, show_run
from duetime.service.presenters import View, message_shape
from duetime.service.services import Call, pages_of
from duetime.service.text import COUNTED

LATELY: Final = 5_000
"""Number of latest messages of an owner that can be unread; older ones count as read, so that counting stays cheap."""
MAX_MARKED: Final = 1_000
"""Maximum number of messages that one call names by id."""
MAX_ANSWER_LENGTH: Final = 20_000
_PAGE: Final = 500
_LEASE: Final = 1 * MINUTE
Mark = Literal["read", "resolve", "reopen", "dismiss", "restore"]
"""`reopen` undoes `resolve`: the message returns to the inbox, marked as read. `dismiss` and `restore` are the names of
the two until 0.2."""
MARKS: Final = ("read", "resolve", "reopen")
REOPENING: Final = ("reopen", "restore")
Show = Literal["kept", "unread", "dismissed"]
"""Which messages to show: those that were not dismissed, the caller's unread ones, or dismissed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListInbox(PagedRequest):
    """Notifications that were delivered, latest first."""

    topic: Annotated[str | None, Field("What was sent to this topic alone.", max_length=200)] = None
    show: Annotated[
        Show, Field("Those not dismissed, the caller's unread ones, or dismissed ones.", choices=get_args(Show))
    ] = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkMessages(OperationRequest):
    """The caller's own messages with these numbers, or all unread ones, to mark as read."""

    ids: Annotated[Sequence[int] | None, Field("The `run_id`s of messages.", min_items=1, max_items=MAX_MARKED)] = None
    everything: Annotated[bool, Field("All unread messages; only for `read`.", name="all")] = False
    mark: Mark = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWaiting(OperationRequest):
    """A waiting run, and a person's answer to it."""

    run: int
    text: Annotated[str, Field("What the result is.", max_length=MAX_ANSWER_LENGTH, name="answer")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver(OperationRequest):
    """A waiting run, and who is woken for it."""

    run: int
    agent: Annotated[str, Field("Somebody who can be woken.", max_length=200)]


def inbox(call: Call, request: ListInbox) -> Answer[Page[Run]]:
    """Return messages; none if no kind delivers messages here."""
    messages = _messages(call, request.show)
    own = {name: getattr(messages, name) for name in (("kind", "owner") if request.show == "unread" else ("kind",))}
    query = replace(messages, **request.query(call) | own)
    if request.topic is not None:
        # The topic of the message itself: its schedule may have a different one now, and a run may have its own input.
        query = replace(query, in_result=encode_whole({"topic": request.topic})[1:-1])
    return Answer(call.scheduler.runs(call.caller, query))


def _messages(call: Call, show: Show) -> RunQuery:
    """Return the query for messages, which finds nothing if no kind delivers messages here."""
    _check_word("show", show, Show)
    messenger = call.scheduler.store.messenger
    query = RunQuery(ids=()) if messenger is None else RunQuery(kind=messenger.kind, status=RunStatus.COMPLETED)
    if show == "unread":
        return replace(query, owner=call.caller.owner, mark_below=READ, above=_long_ago(call))
    return replace(query, mark_from=DISMISSED) if show == "dismissed" else replace(query, mark_below=DISMISSED)


def _long_ago(call: Call) -> RunId:
    """Return the latest of the caller's messages that count as read in any case."""
    store = call.scheduler.store
    return RunId(0) if store.messenger is None else store.latest_but(call.caller.owner, store.messenger.kind, LATELY)


def message_views(call: Call, runs: Sequence[Run]) -> list[View]:
    """Return messages as all interfaces show them, each with its mark: unread, read or dismissed."""
    ids, long_ago = call.scheduler.store.public_ids([run.schedule for run in runs]), _long_ago(call)

    def mark(run: Run) -> str:
        if run.stop >= DISMISSED:
            return "dismissed"
        return "read" if run.stop or (run.owner == call.caller.owner and run.id <= long_ago) else "unread"

    def about(run: Run) -> View:
        return {"run_id": run.id, "schedule": ids.get(run.schedule), "schedule_short_id": run.schedule_short_id}

    shapes = (message_shape(run, call.zone, call.caller.depth) for run in runs)
    return [about(run) | {"mark": mark(run)} | shape for run, shape in zip(runs, shapes, strict=True)]


def unread_count(call: Call) -> int:
    """Return the number of the caller's unread messages, at most one more than COUNTED."""
    query = replace(_messages(call, "unread"), limit=1, count_to=COUNTED)
    return call.scheduler.runs(call.caller, query).total


def waiting_count(call: Call) -> int:
    """Return how many of the caller's own runs wait for somebody to take them, at most one more than COUNTED."""
    now, owner = call.scheduler.clock.now(), call.caller.owner
    query = RunQuery(owner=owner, free_at=now, oldest_first=True, limit=1, count_to=COUNTED)
    return call.scheduler.runs(call.caller, query).total


def is_message(call: Call, run: Run) -> bool:
    """Return whether a run delivered a message."""
    messenger = call.scheduler.store.messenger
    return messenger is not None and run.kind == messenger.kind and run.status == RunStatus.COMPLETED


def mark_messages(call: Call, request: MarkMessages) -> Answer[int]:
    """Mark the caller's own messages as read, resolve or reopen them. Resolved ones leave the inbox and stay in the
    history. Return how many were marked; those of others are not."""
    ids, mark = request.ids, request.mark
    if call.caller.depth > 0:
        raise refuse("run_token", "an agent's run cannot mark the messages of a person; ask a person to do it")
    _check_word("mark", mark, Mark, MARKS)
    if (ids is None) != request.everything or (request.everything and mark != "read"):
        raise refuse("invalid", "ids: give the numbers of messages; `all` is for marking them as read", "ids")
    if ids is None:
        return Answer(_mark_all_read(call))
    if len(ids) > MAX_MARKED:
        raise refuse("invalid", f"ids: at most {MAX_MARKED:,}", "ids")
    for each in ids:
        check_type("ids", each, int)
    messenger = call.scheduler.store.messenger
    runs = (call.scheduler.run(call.caller, id) for id in dict.fromkeys(ids))
    kind = None if messenger is None else messenger.kind
    own = [run for run in runs if run is not None and (run.kind, run.owner) == (kind, call.caller.owner)]
    as_ = DISMISSED if mark in ("resolve", "dismiss") else READ
    results = call.scheduler.mark_all(call.caller, own, as_, undo=mark in REOPENING)
    return Answer(sum(not isinstance(result, Refused) for result in results))


def _check_word(field: str, word: str, words: object, usual: Sequence[str] = ()) -> None:
    if word not in get_args(words):
        raise refuse("invalid", f"{field}: must be one of {', '.join(usual or get_args(words))}", field)


def _mark_all_read(call: Call) -> int:
    query, number = replace(_messages(call, "unread"), limit=_PAGE, count_to=0), 0
    for page in pages_of(call.scheduler.runs, call.caller, query):
        results = call.scheduler.mark_all(call.caller, page.items, READ)
        number += sum(not isinstance(result, Refused) for result in results)
    return number


def answer_waiting(call: Call, request: AnswerWaiting) -> Answer[Run]:
    """Finish a waiting run with a person's answer, as an agent that takes the run would."""
    text = request.text
    if not text.strip():
        raise refuse("invalid", "answer: must not be empty; write what the result is", "answer")
    if len(text) > MAX_ANSWER_LENGTH:
        problem = f"it has {len(text):,} characters, and {MAX_ANSWER_LENGTH:,} are possible; shorten it"
        raise refuse("invalid", f"answer: {problem}", "answer")
    taken = call.scheduler.take_run(call.caller, request.run, _LEASE)
    outcome = Completed(json.dumps({"text": text.strip()}, ensure_ascii=False))
    return Answer(call.scheduler.finish(call.caller, request.run, outcome, hold=hold_of(taken.run)))


def hand_over(call: Call, request: HandOver) -> Answer[Schedule]:
    """Assign a waiting run to somebody who can be woken, such as an agent, and wake them. A recurring schedule is
    theirs from now on."""
    scheduler, caller, name = call.scheduler, call.caller, request.agent
    run = show_run(call, ShowRun(run=request.run)).value
    seen = scheduler.schedule_of(caller, run)
    schedule = scheduler.store.get(run.schedule)  # with the schedule's input, which may differ from the run's
    if seen is None or schedule is None:
        raise no_run()
    definition, hooks = schedule.definition, call.services.hooks(run.kind)
    if run.status != RunStatus.WAITING or run.holder is not None:
        state = "taken" if run.holder else run.status
        raise refuse("not_possible", f"it is {state}, so nobody else can be woken for it")
    if name not in hooks.wakeable(definition.owner):
        known = ", ".join(hooks.wakeable(definition.owner)) or "none"
        raise refuse("invalid", f"agent: {name[:100]!r} cannot be woken from here; choose from {known}", "agent")
    payload = hooks.handed_to(json.loads(definition.payload), name)
    scheduler.check_scopes(caller, WRITE, definition._replace(payload=json.dumps(payload)))
    own = scheduler.own_input(run).payload
    if own is not None:  # first, because a worker may start the run as soon as the schedule has changed
        input = json.dumps(hooks.handed_to(json.loads(own), name), ensure_ascii=False)
        scheduler.replace_input(caller, run.id, input)
    changes = Changes(payload=payload, version=definition.version, amid_runs=True)
    return Answer(scheduler.edit(caller, definition.public_id, changes))
