"""Dead letters: runs that failed for good or were lost. Grouped into problems, and retried or dismissed together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.kind import Caller
from duetime.engine.model import OVER, Run, ScheduleId
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import NO_RUN, ordered
from duetime.engine.store import RunQuery
from duetime.service.errors import Refused, refuse, unwrap
from duetime.service.services import Services, pages_of
from duetime.service.text import plural

MOST: Final = 10_000
"""Dead letters that one call reads, retries or dismisses: the newest."""
MOST_READ: Final = 64 * 1024 * 1024
"""Bytes of results after which no further page is read."""
_PAGE: Final = 1000
_NUMBERS: Final = re.compile(r"\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
"""What differs between two occurrences of one problem: durations, ports, ids."""
Action = Literal["retry", "dismiss", "restore"]
"""`restore` undoes `dismiss`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQuery:
    """Which dead letters: those with given ids, or all that match every filter that is given."""

    ids: Sequence[int] | None = None
    owner: str | None = None
    kind: str | None = None
    schedule: ScheduleId | None = None
    text: str = ""
    """Part of the name or of the error, in any case."""
    groups: Sequence[str] = ()
    """Keys of the groups that `group` makes."""


class Group(NamedTuple):
    """Dead letters of one schedule with the same error, the latest first."""

    key: str
    runs: list[Run]

    @property
    def latest(self) -> Run:
        return self.runs[0]


class Dealt(NamedTuple):
    """What became of the dead letters that were to be retried or dismissed."""

    done: list[Run]
    refused: list[tuple[Run, Err]]

    def reasons(self) -> list[str]:
        """Return one line for each reason why some were refused, with their number."""
        counted = Counter(_reason(err) for _, err in self.refused)
        return [f"{plural(number, 'run')}: {reason}" for reason, number in counted.most_common()]


def ended_at(run: Run) -> Instant:
    """Return the instant that lists show for a dead letter and sort it by."""
    return run.due if run.finished is None else run.finished


def find_dead(services: Services, caller: Caller, asked: DeadLetterQuery) -> list[Run]:
    """Return the dead letters that match, the latest first; at most the newest of MOST."""
    query = RunQuery(
        owner=asked.owner, kind=asked.kind, schedule=asked.schedule, status="dead", limit=_PAGE, count_to=0
    )
    found: list[Run] = []
    read = 0
    for page in pages_of(services.scheduler.runs, caller, query):
        read += sum(len(run.result or "") for run in page.items)
        found += [run._replace(result=None) for run in page.items]  # nobody looks at it, and it may be long
        if len(found) >= MOST or read >= MOST_READ:
            break
    text, keys = asked.text.casefold(), frozenset(asked.groups)
    matching = [
        run
        for run in found[:MOST]
        if (not text or text in f"{run.name}\n{run.error or ''}".casefold()) and (not keys or _key(run) in keys)
    ]
    return sorted(matching, key=lambda run: (ended_at(run), run.id), reverse=True)


def group(runs: Sequence[Run]) -> list[Group]:
    """Group by schedule and error, so that one cause is one entry however often it struck. The latest group first."""
    groups: dict[str, Group] = {}
    for run in runs:
        groups.setdefault(_key(run), Group(_key(run), [])).runs.append(run)
    return list(groups.values())


def _key(run: Run) -> str:
    error = _NUMBERS.sub("#", run.error or run.status)
    return sha256(f"{run.schedule}\n{error}".encode()).hexdigest()[:16]


def change_dead(services: Services, caller: Caller, asked: DeadLetterQuery, action: Action) -> Result[Dealt]:
    """Retry, dismiss or restore dead letters. Each one that is retried runs again under its own id, those of a schedule
    one after the other in the order in which they were due, whatever its overlap policy and its queue limit."""
    scheduler = services.scheduler
    if caller.depth > 0:
        return Err("run_token", f"an agent's run cannot {action} many runs at once; ask a person to do it")
    try:
        runs = find_dead(services, caller, asked) if asked.ids is None else _by_ids(services, caller, asked.ids)
        change = {
            "retry": scheduler.retry_all,
            "dismiss": scheduler.dismiss_all,
            "restore": scheduler.restore_all,
        }[action]
        results = unwrap(change(caller, runs))
    except Refused as refused:
        return refused.err
    dealt = Dealt([], [])
    for run, result in zip(ordered(runs), results, strict=True):
        if isinstance(result, Ok):
            dealt.done.append(result.value)
        else:
            dealt.refused.append((run, result))
    return Ok(dealt)


def _by_ids(services: Services, caller: Caller, ids: Sequence[int]) -> list[Run]:
    if len(ids) > MOST:
        raise refuse("invalid", f"ids: at most {MOST:,}", "ids")
    found = [services.scheduler.run(caller, id) for id in dict.fromkeys(ids)]
    if None in found:
        raise Refused(NO_RUN)
    return [run for run in found if run is not None]


def _reason(err: Err) -> str:
    state = err.details.get("state")
    return f"the schedule was {state}" if state in OVER else err.message or "it no longer exists"
