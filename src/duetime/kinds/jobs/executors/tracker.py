"""Tracks the runs that were handed to an executor: compares what the store wants with what the cluster knows.

A run that was handed over waits in the store without a worker. A thread of one living worker asks the cluster about
all of them, under keys that name the store, the run and the fence of its claim: it records what has ended, submits what
the cluster does not know, and has it forget what nobody wants any more. All of this can be repeated, so it does not
matter when a worker or the cluster dies, and two workers that track at the same time do no harm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final, TypeVar

from duetime.engine.clock import Clock
from duetime.engine.encoding import error_text
from duetime.engine.errors import TRANSIENT, DuetimeError, UnknownTask
from duetime.engine.kind import StopSignal, Work
from duetime.engine.model import Cause, ExecutorRow, Run, RunStatus, WorkerId, event_of, executor_holder, is_held_back
from duetime.engine.outcome import Outcome
from duetime.engine.policy import checkout
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.decision import Change, Decision, RunDecider
from duetime.engine.policy.options import is_gated
from duetime.engine.queries import with_input
from duetime.engine.redaction import redacted, redacted_outcome
from duetime.engine.store import RunInput, RunQuery, Store
from duetime.kinds.jobs.context import ProcessFailed, outcome_of
from duetime.kinds.jobs.executors import Executor, executor_type
from duetime.kinds.jobs.remote import outcome_from
from duetime.settings import ExecutorSettings

T = TypeVar("T")

log = logging.getLogger("duetime.jobs")
SHORTEST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 10.0
"""Seconds between two looks at the cluster, and between two attempts to reach one that is away."""
IDLE_LOOK: Final = 5.0
"""Seconds between two looks at a cluster while nothing is wanted; the store is asked more often."""
NOTE_EVERY: Final = 10.0
BATCH: Final = 200
"""Runs that one transaction changes."""
MOST_SUBMITTED: Final = 1000
"""Runs that are submitted before the next look."""
_GONE: Final = "its schedule or the event that started it is no longer stored, so it cannot run"


class ClusterAway(Exception):
    """The cluster does not answer, or not as it should."""


class Tracker:
    """Tracks one executor, from a thread of its own that calls `run`."""

    def __init__(
        self,
        name: str,
        settings: ExecutorSettings,
        store: Store,
        clock: Clock,
        worker: Callable[[], WorkerId | None],
        call_text: Callable[[Work], str],
        entry: str,
    ) -> None:
        """`worker` returns the id of the worker of this process, `call_text` the text with which the cluster calls a
        task; `entry` is what every worker that can track this executor publishes in its row."""
        self._name, self._settings, self._store, self._clock = name, settings, store, clock
        self._worker, self._call_text, self._entry = worker, call_text, entry
        self._holder, self._prefix = executor_holder(name), f"duetime-{store.store_id()}-"
        self._query = RunQuery(holder=self._holder, ascending=True, limit=5000, count_to=0)
        self._executor: Executor | None = None
        self._failures = 0
        self._next_look = self._next_note = 0.0
        self._problem: str | None = None
        self._unknown: set[str] = set()

    def run(self, stopping: threading.Event) -> None:
        pause = 0.0
        while not stopping.wait(pause):
            try:
                pause = self.step()
            except TRANSIENT:  # the store: the worker logs that it is away
                pause = 1.0
            except Exception:
                log.exception("the runs on %s could not be tracked; it is tried again", self._name)
                pause = LONGEST_PAUSE
        self._close()

    def step(self) -> float:
        """Compare once, if this worker is the one that tracks. Return after how many seconds to call this again."""
        begun = self._clock.monotonic()
        if not self._leads():
            self._close()
            return 1.0
        if self._executor is not None and begun < self._next_look and not self._store.runs(self._query).items:
            return SHORTEST_PAUSE
        try:
            more = self._compare()
        except ClusterAway as error:
            self._close()
            return self._hold_back(str(error))
        if self._failures > 1:
            log.warning("%s is back; its runs go on", self._name)
        self._failures = 0
        return 0.0 if more else max(SHORTEST_PAUSE, 2 * (self._clock.monotonic() - begun))

    def _leads(self) -> bool:
        """Return whether no living worker with a lower id tracks this executor. One that has missed a heartbeat may be
        dead, and it does no harm if both track."""
        own, now = self._worker(), self._clock.now()
        rows = [row for row in self._store.recent_workers() if self._entry in row.lanes.split(",")]
        return own is not None and all(row.id >= own or now - row.seen > row.lease // 2 for row in rows)

    def _compare(self) -> bool:
        if self._executor is None:
            self._executor = self._ask(executor_type(self._settings.type), self._settings.address)
        executor = self._executor
        # In this order: what another worker submits after the first question is not among the keys that nobody wants.
        known = set(self._ask(executor.keys, self._prefix))
        demand = {f"{self._prefix}{run.id}-{run.fence}": run for run in self._runs()}
        held = [run for run in demand.values() if is_held_back(run)]
        self._change(held, partial(checkout.hand_over_again, holder=self._holder))
        answers = self._ask(executor.poll, [key for key in demand if key in known])
        ended = {key: text for key, text in answers.items() if text is not None}
        self._record([(demand[key], outcome_from(text)) for key, text in ended.items()])
        gone = [*ended, *(known - demand.keys())]
        if gone:
            self._ask(executor.forget, gone)
        waiting = {key: run for key, run in demand.items() if key not in answers}
        room = self._settings.limit - len(known) + len(gone)
        calls = self._calls(_in_turns(waiting)[: max(0, min(room, MOST_SUBMITTED))], waiting)
        if calls:
            self._ask(executor.submit, calls)
        now = self._clock.monotonic()
        self._next_look = self._next_look if demand else now + IDLE_LOOK
        if now >= self._next_note or self._problem is not None:
            self._note(self._ask(executor.workers), None)
        return len(calls) == MOST_SUBMITTED

    def _ask(self, question: Callable[..., T], *values: Any) -> T:
        try:
            return question(*values)
        except Exception as error:
            raise ClusterAway(redacted(error_text(error))) from error

    def _close(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            try:
                executor.close()
            except Exception as error:
                log.debug("the connection to %s could not be closed: %s", self._name, error)

    def _calls(self, keys: Sequence[str], runs: dict[str, Run]) -> dict[str, str]:
        """Return the texts of the calls to submit. A run that cannot be called ends."""
        calls: dict[str, str] = {}
        failed: list[tuple[Run, Outcome]] = []
        for key in keys:
            try:
                calls[key] = self._call_text(self._work(runs[key]))
            except UnknownTask as error:
                if error.message not in self._unknown:
                    self._unknown.add(error.message)
                    log.warning("%s: start this worker with the module that registers it; its runs wait", error)
            except TRANSIENT:
                raise
            except Exception as error:
                failed.append((runs[key], outcome_of(error)))
        self._record(failed)
        return calls

    def _work(self, run: Run) -> Work:
        schedule, number = self._store.get(run.schedule), event_of(run.cause)
        event = None if number is None else self._store.event(number)
        if schedule is None or (number is not None and event is None):
            raise ProcessFailed(_GONE, permanent=True)
        own = self._store.run_input(run.id) if run.cause == Cause.MANUAL else RunInput()
        definition = with_input(schedule.definition, own)
        gift = self._store.gate_gift(run.id) if is_gated(definition.policy) else None
        return Work(Claim(run, definition, run.due), StopSignal(), lambda text: None, event=event, gift=gift)

    def _runs(self) -> Iterator[Run]:
        """Yield the runs that this executor has, as far as the store knows."""
        page = self._store.runs(self._query)
        yield from page.items
        while page.cursor is not None:
            page = self._store.runs(replace(self._query, cursor=page.cursor))
            yield from page.items

    def _record(self, ended: Sequence[tuple[Run, Outcome]]) -> None:
        outcomes = {run.id: (checkout.hold_of(run), outcome) for run, outcome in ended}

        def decide(change: Change, run: Run) -> Decision[Run]:
            hold, outcome = outcomes[run.id]
            outcome = redacted_outcome(outcome, change.schedule.definition.payload)
            return checkout.finish(change, run, self._holder, outcome, hold)

        for run in self._change([run for run, _ in ended], decide):
            if run.status != RunStatus.COMPLETED:
                log.warning("run %s of %s on %s failed: %s", run.id, run.name, self._name, run.error)

    def _hold_back(self, problem: str) -> float:
        """Keep the runs of a cluster that is away, with the reason; return after how many seconds to try again."""
        self._failures += 1
        if self._failures > 1:  # it may be back in a moment
            reason = f"{self._name} cannot be reached: {problem}; the run goes on once that works"
            decide = partial(checkout.hold_back, holder=self._holder, reason=reason)
            self._change([run for run in self._runs() if not is_held_back(run)], decide)
        if self._failures == 2:
            log.warning("%s cannot be reached: %s; its runs wait", self._name, problem)
        self._note(None, problem)
        return min(LONGEST_PAUSE, 0.25 * 2**self._failures) if self._failures < 6 else LONGEST_PAUSE

    def _change(self, runs: Sequence[Run], decide: RunDecider[Run]) -> list[Run]:
        """Change runs, in transactions for which the workers need not wait for long; return those that changed."""
        ids = [run.id for run in sorted(runs, key=lambda run: (run.schedule, run.id))]
        parts = [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
        results = (each for part in parts for each in self._store.change_runs(part, self._clock.now(), decide))
        return [each for each in results if not isinstance(each, DuetimeError)]

    def _note(self, workers: int | None, problem: str | None) -> None:
        """Note for `status` how the cluster is."""
        self._next_note, self._problem = self._clock.monotonic() + NOTE_EVERY, problem
        row = ExecutorRow(self._name, self._settings.type, workers, problem, self._clock.now())
        self._store.note_executor(row)


def _in_turns(runs: dict[str, Run]) -> list[str]:
    """Return the keys of runs so that their owners take turns; those of one owner stay in order."""
    by_owner: dict[str, list[str]] = {}
    for key, run in runs.items():
        by_owner.setdefault(run.owner, []).append(key)
    return [key for each in zip_longest(*by_owner.values()) for key in each if key is not None]
