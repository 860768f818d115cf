"""Runs from Python: start one, wait for it, read the history, retry or dismiss failures, read the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from duetime.api.methods import Blocking, Opened, Steps, method, waits
from duetime.api.types import Id, RunFilters, RunList, RunReport
from duetime.api.values import chosen_by, history, run_of, runs_of, stop_runs, wait_for, wait_for_run, wait_for_start
from duetime.engine.store import RunQuery
from duetime.service.answers import Incident, Message, Run, RunLog
from duetime.service.operations import dead_letters, inbox
from duetime.service.operations.attention import ListAttention, MarkRuns, attention, mark_runs
from duetime.service.operations.change_runs import ChangeRuns, RunAction, change_runs
from duetime.service.operations.dead_letters import ChangeDeadLetters, Dealt, Dismiss
from duetime.service.operations.declaration import Answer, check_type
from duetime.service.operations.history import ShowRun, deliveries_of, run_details, show_run
from duetime.service.operations.inbox import Mark, Show
from duetime.service.operations.logs import ReadLog, is_news, log_view, read_log
from duetime.service.operations.run import RetryRun, RunAgain, Stop, retry, run_again, stop
from duetime.service.services import Call, pages_of
from duetime.service.warnings import warning_facts

_PART = 500
"""Runs that are read at once."""


class Running:
    @method
    @waits
    def wait_for_run(self: Opened, run_id: int, seconds: float | None = None) -> Steps[Run]:
        """Wait until a run has ended or the time is up, and return it; `ended` says which, and `reason` why it has not
        ended."""
        return (yield from wait_for_run(self._call, run_id, seconds))

    @method
    def history(self: Opened, id: Id | None = None, limit: int = 20, **filters: Unpack[RunFilters]) -> RunList:
        """Return the runs of one schedule, which may be deleted, or of all schedules; the latest first. The options
        select them."""
        return history(self._call, id, filters, limit)

    @method
    def change_runs(
        self: Opened,
        action: RunAction,
        ids: Sequence[int] | None = None,
        *,
        schedule: Id | None = None,
        everything: bool = False,
        every_run: bool = False,
        dry_run: bool = False,
        **filters: Unpack[RunFilters],
    ) -> list[Run]:
        """Retry, stop or resolve the runs with these numbers, or all that match, and return them. `action` is retry,
        stop or resolve. With `dry_run`, nothing is changed. What cannot be changed is left out.

        Of a recurring schedule, only the newest run is retried, unless `every_run` or `ids` are given. To change runs
        without a filter, give `everything`.
        """
        call = self._call
        request = ChangeRuns(
            **chosen_by(call, schedule, filters), action=action, ids=ids, everything=everything, every_run=every_run,
            dry_run=dry_run,
        )  # fmt: skip
        return _dealt(call, change_runs(call, request))

    @method
    def run(self: Opened, run_id: int) -> RunReport:
        """Return a run with its input, its earlier attempts, the traceback of an exception, and the messages about its
        end."""
        run = show_run(self._call, ShowRun(run=run_id)).value
        details = run_details(self._call, run)
        return RunReport({**details, "deliveries": deliveries_of(self._call, run)}.copy, self._call.zone)

    @method
    @waits
    def log(
        self: Opened, run_id: int, *, attempt: int | None = None, after: str | None = None, wait: float = 0
    ) -> Steps[RunLog]:
        """Return what a run has written. To follow it, repeat this with `after=log.next` and a `wait` in seconds until
        `log.ended`."""
        check_type("wait", wait, float, int)
        request = ReadLog(run=run_id, attempt=attempt, after=after)
        answer = yield from wait_for(lambda: read_log(self._call, request), is_news, wait)
        return RunLog(log_view(self._call, answer.value).copy, self._call.zone)

    @method
    @waits
    def run_again(
        self: Opened,
        run_id: int,
        payload: Mapping[str, Any] | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        wait: float = 0,
    ) -> Steps[Run]:
        """Start a new run of the same schedule with the input of this run, with another whole `payload`, or with some
        `fields` of it changed, such as `{"kwargs": {"account": "test"}}`. The schedule keeps its own input.

        With `wait`, wait up to so many seconds for the run to end.
        """
        check_type("wait", wait, float, int)
        answer = run_again(self._call, RunAgain(run=run_id, payload=payload, fields=fields))
        return (yield from wait_for_start(self._call, answer, wait))

    @method
    @waits
    def retry(self: Opened, run_id: int) -> Steps[Run]:
        """Retry a run that failed, was lost or was cancelled. It keeps its id."""
        return (yield from wait_for_start(self._call, retry(self._call, RetryRun(run=run_id)), 0))

    @method
    def cancel_run(self: Opened, run_id: int, *, after: str | None = None) -> Run:
        """Stop one run and leave its schedule alone. A run that has started is asked to stop; with `after`, such as
        `10m`, only once it has run that long."""
        stopped, _, notes = stop(self._call, Stop(run=run_id, after=after))
        return run_of(self._call, stopped.runs[0], notes=list(notes))

    @method
    def stop_runs(self: Opened, id: Id) -> list[Run]:
        """Stop the runs of a schedule that are in progress or wait, and return them; the schedule goes on."""
        return stop_runs(self._call, id)

    @method
    def attention(
        self: Opened, *, resolved: bool = False, tagged: str | None = None, limit: int = 100
    ) -> list[Incident]:
        """Return what needs attention: incidents, dead letters, missed runs and what waits for somebody, the latest
        first; or what was resolved and is not over. `tagged` is a tag of the schedules."""
        rows = attention(self._call, ListAttention(resolved=resolved, tagged=tagged, limit=limit)).value.items
        return [Incident(each.copy, self._call.zone) for each in rows]

    @method
    def resolve(self: Opened, *ids: int | str) -> int:
        """Mark as dealt with: the `key`s of what needs attention, or numbers of runs and messages. Nothing reminds of a
        resolved incident until it is over. Return how many were marked."""
        return mark_runs(self._call, MarkRuns(ids=ids, mark="resolve")).value

    @method
    def reopen(self: Opened, *ids: int | str) -> int:
        """Put what was resolved back on the list. Return how many were marked."""
        return mark_runs(self._call, MarkRuns(ids=ids, mark="reopen")).value


class InboxMethods:
    """The notifications that were delivered, through any channel."""

    @method
    def messages(self: Opened, topic: str | None = None, *, show: Show = "kept", limit: int = 100) -> list[Message]:
        """Return messages, the latest first. `show` is kept (those that were not dismissed), unread or dismissed."""
        call = self._call
        runs = inbox.inbox(call, inbox.ListInbox(topic=topic, show=show, limit=limit)).value.items
        return [Message(each.copy, call.zone) for each in inbox.message_views(call, runs)]

    @method
    def mark(self: Opened, run_ids: Sequence[int], mark: Mark = "read") -> int:
        """Mark messages as read, resolve them (they stay in the history), or reopen resolved ones. `mark` is read,
        resolve or reopen. Return how many were marked; those of others are not."""
        return inbox.mark_messages(self._call, inbox.MarkMessages(ids=run_ids, mark=mark)).value

    @method
    def mark_all_read(self: Opened) -> int:
        """Mark all unread messages as read, and return how many they were."""
        return inbox.mark_messages(self._call, inbox.MarkMessages(everything=True)).value


class DeadLettersMethods:
    """The runs that failed for good or were lost, and were neither retried nor dismissed."""

    @method
    def runs(
        self: Opened, *, kind: str | None = None, text: str = "", dismissed: bool = False, limit: int = 100
    ) -> list[Run]:
        """Return them, or those that were dismissed; the latest first. `text` is part of the name or of the error."""
        request = dead_letters.ListDeadLetters(kind=kind, text=text, dismissed=dismissed, limit=limit)
        return runs_of(self._call, dead_letters.dead_letters(self._call, request).value.items)

    @method
    def resolve(self: Opened, run_id: int) -> Run:
        """Take a run off the dead letters. It stays in the history."""
        return run_of(self._call, dead_letters.dismiss(self._call, Dismiss(run=run_id)).value)

    @method
    def reopen(self: Opened, run_id: int) -> Run:
        """Put a dead letter that was resolved back on the list."""
        return run_of(self._call, dead_letters.dismiss(self._call, Dismiss(run=run_id, undo=True)).value)

    @method
    def retry_all(self: Opened, *, kind: str | None = None, text: str = "", every_run: bool = False) -> list[Run]:
        """Retry all dead letters, or those of a kind or with this text in their name or error, and return them.

        Of a recurring schedule, only the newest one is retried, unless `every_run` is given. Those of a schedule run
        one after the other in the order in which they were due, whatever its overlap policy and its queue limit. Dead
        letters of deleted and cancelled schedules cannot be retried and stay.
        """
        return _change_dead(self._call, ChangeDeadLetters(action="retry", kind=kind, text=text, every_run=every_run))

    @method
    def resolve_all(self: Opened, *, kind: str | None = None, text: str = "") -> list[Run]:
        """Take all dead letters, or those that match, off the list and return them. They stay in the history."""
        return _change_dead(self._call, ChangeDeadLetters(action="resolve", kind=kind, text=text))

    @method
    def reopen_all(self: Opened, *, kind: str | None = None, text: str = "") -> list[Run]:
        """Put all dead letters that were resolved, or those that match, back on the list and return them."""
        return _change_dead(self._call, ChangeDeadLetters(action="reopen", kind=kind, text=text))

    dismiss, restore, dismiss_all, restore_all = resolve, reopen, resolve_all, reopen_all
    """Their names until 0.2."""


def _change_dead(call: Call, request: ChangeDeadLetters) -> list[Run]:
    return _dealt(call, dead_letters.change_dead(call, request))


def _dealt(call: Call, answer: Answer[Dealt]) -> list[Run]:
    (done, _), warnings, notes = answer
    parts = (tuple(done[start : start + _PART]) for start in range(0, len(done), _PART))
    queries = (RunQuery(ids=ids, limit=_PART, count_to=0) for ids in parts)
    pages = (page for query in queries for page in pages_of(call.scheduler.runs, call.caller, query))
    return [run for page in pages for run in runs_of(call, page.items, notes=list(notes), **warning_facts(warnings))]


class _Group(Blocking):
    """Methods that belong together."""

    def __init__(self, call: Call) -> None:
        self._call = call


class Inbox(InboxMethods, _Group):
    """The notifications that were delivered, through any channel."""


class DeadLetters(DeadLettersMethods, _Group):
    """The runs that failed for good or were lost, and were neither retried nor dismissed."""
