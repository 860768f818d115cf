"""Retries, stops or resolves the runs of a history that match, however many they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from duetime.engine.model import DISMISSABLE, READ, Run, RunStatus
from duetime.engine.scheduler import ordered
from duetime.engine.scopes import DELETE, WRITE
from duetime.engine.store import RunQuery
from duetime.engine.value_class import dataclass
from duetime.service.errors import refuse, refuse_many
from duetime.service.operations.dead_letters import MAX_NAMED, Dealt, PlannedRetry, chosen_runs, deal, plan_change
from duetime.service.operations.declaration import Answer, Field, check_choice, check_type
from duetime.service.operations.history import History, chosen_statuses, query_of, search_notes
from duetime.service.services import Call

RunAction = Literal["retry", "stop", "resolve"]
IN_TURN: Final = (RunStatus.QUEUED, RunStatus.PENDING, RunStatus.WAITING, RunStatus.RUNNING)
"""The statuses that can be stopped. Queued runs come first, because the end of an active run starts the next of
them."""
CHANGEABLE: Final[Mapping[RunAction, Collection[RunStatus]]] = {
    "retry": (RunStatus.FAILED, RunStatus.LOST, RunStatus.CANCELLED), "stop": IN_TURN, "resolve": DISMISSABLE,
}  # fmt: skip
"""The statuses of the runs that each change concerns."""
_FILTERS: Final = (
    "kind", "schedule", "status", "since", "until", "tagged", "task", "error", "longer_than", "shorter_than",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRuns(History):
    """A change of the runs with these numbers, or of all that match. Those that it cannot concern are left out: only
    what failed, was lost or, if that status is chosen, was cancelled is retried; only what has not ended is stopped;
    and only what failed, was lost or missed is resolved."""

    action: Annotated[RunAction, Field("What is done with them: retry, stop or resolve.")]
    ids: Annotated[
        Sequence[int] | None, Field("Numbers of runs, instead of a filter.", min_items=1, max_items=MAX_NAMED)
    ] = None
    every_run: Annotated[bool, Field("Retry every run of a recurring schedule, not only its newest.")] = False
    everything: Annotated[bool, Field("All runs that can be changed in this way, if there is no filter.")] = False
    dry_run: Annotated[bool, Field("Change nothing, and return what would be changed.")] = False


def plan_runs(call: Call, request: ChangeRuns) -> list[PlannedRetry]:
    """Return what a change concerns, by schedule; the one with the most comes first. Who may not make the change is
    refused, before anybody confirms it."""
    _check_action(call, request.action)
    return plan_change(call, _fitting(call, request), request.action, every_run=_is_every_run(request))


def notes_of(call: Call, request: ChangeRuns) -> list[str]:
    """Return which runs a change cannot concern, because they are not searched."""
    return [] if request.ids is not None else search_notes(query_of(call, request))


def change_runs(call: Call, request: ChangeRuns) -> Answer[Dealt]:
    """Change the runs, or with `dry_run` name those that would be changed. A retry is that of dead letters: each run
    keeps its id, and of a recurring schedule only the newest one is retried, unless `every_run` or ids are given. Notes
    say which runs were not searched."""
    scheduler, action = call.scheduler, request.action
    _check_action(call, action)
    if request.ids is None and not request.everything and all(getattr(request, name) is None for name in _FILTERS):
        raise refuse("invalid", "ids: give numbers of runs, a filter such as status, or everything", "ids")
    changes = {"retry": scheduler.retry_all, "stop": scheduler.cancel_runs, "resolve": scheduler.dismiss_all}
    newest_only = action == "retry" and not _is_every_run(request)
    planned = plan_runs(call, request) if newest_only or request.dry_run else []
    notes = notes_of(call, request)
    if not request.dry_run:
        answer = deal(call, _chosen(call, request), changes[action], action, planned if newest_only else ())
        return answer._replace(notes=notes)
    left_out = {each.newest.schedule for each in planned if not each.retried}
    fitting = (([run for run in runs if run.schedule not in left_out], part) for runs, part in _fitting(call, request))
    answer = deal(call, fitting, lambda caller, runs: ordered(runs), "", planned if newest_only else ())
    return answer._replace(notes=notes)


def _check_action(call: Call, action: str) -> None:
    check_type("action", action, str)
    check_choice("action", action, CHANGEABLE)
    refuse_many(call.caller, f"{action} many runs", "ask a person to do it", DELETE if action == "stop" else WRITE)


def _is_every_run(request: ChangeRuns) -> bool:
    return request.every_run or request.ids is not None


def _fitting(call: Call, request: ChangeRuns) -> Iterator[tuple[list[Run], float]]:
    """Yield the runs that can be changed in this way."""
    for runs, part in _chosen(call, request):
        yield [run for run in runs if run.status in CHANGEABLE[request.action]], part


def _chosen(call: Call, request: ChangeRuns) -> Iterator[tuple[list[Run], float]]:
    """Yield the runs to change in batches."""
    if request.ids is not None:
        yield from chosen_runs(call, RunQuery(), request.ids)
        return
    query = replace(query_of(call, request), status=None, statuses=())
    for statuses, mark_below in _parts(request):
        yield from chosen_runs(call, replace(query, statuses=statuses, mark_below=mark_below), None)


def _parts(request: ChangeRuns) -> Iterator[tuple[tuple[str, ...], int | None]]:
    """Yield the statuses to change in turn, each with the mark that resolved runs have and these have not."""
    chosen = chosen_statuses(request)
    if request.action == "stop":
        parts: list[tuple[Sequence[RunStatus], int | None]] = [((status,), None) for status in IN_TURN]
    elif request.action == "resolve":
        parts = [(sorted(DISMISSABLE), READ)]
    else:
        parts = [((RunStatus.FAILED, RunStatus.LOST), READ)]
        parts += [((RunStatus.CANCELLED,), None)] if chosen else []
    for statuses, mark_below in parts:
        matching = tuple(status.value for status in statuses if not chosen or status in chosen)
        if matching:
            yield matching, mark_below
