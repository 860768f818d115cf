"""A world that one seed decides: several workers on one store, a settable clock, and faults between any two steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from duetime.engine.clock import SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import DuetimeError, StoreUnavailable, WorkerGone
from duetime.engine.kind import Caller, Prepared, ThreadUse, Work
from duetime.engine.model import Definition, RunId
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.engine.policy.record import Receipt
from duetime.engine.scheduler import Scheduler
from duetime.engine.validation import NewSchedule
from duetime.engine.worker.runner import ClaimedRun
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from duetime.testing import SettableClock

START = instant_of(datetime(2026, 1, 1, tzinfo=UTC))
CALLER = Caller("local", operator=True)
LEASE = 10.0
ROUNDS = 60
"""Rounds with faults; time passes by half a second in each on average."""
QUIET_ROUNDS = 600
"""Rounds without faults after which everything has to have ended."""
FAULTY = ("record_and_claim", "beat", "rescue", "workers", "held", "earliest", "register")
"""Calls of the store that may fail before they are written, or after."""


class Planned(NamedTuple):
    """The definition of one schedule: it fires at `first` and every `period` until `last`."""

    public_id: str
    first: Instant
    period: int
    last: Instant
    policy: Mapping[str, Any]

    def instants(self, until: int) -> range:
        return range(self.first, min(self.last, until) + 1, self.period)


class Execution(NamedTuple):
    run: RunId
    schedule: int
    due: Instant
    attempt: int
    fence: int
    ends: str
    latest: Instant  # the furthest that the clock had ever been, or would be now had it not been set back


class World:
    """A world in which everything follows from the seed: the order of steps, the faults, and how each attempt ends."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.clock = SettableClock(START)
        self._ahead = 0
        self.set_back = False
        self.store = SqliteStore(MEMORY, self.clock, MESSENGER)
        self.store.migrate()
        self.faulty = False
        self.executions: list[Execution] = []
        self.recorded: dict[tuple[RunId, int], str] = {}
        self.doubled: list[str] = []
        self.kind = _Scripted(self)
        self.scheduler = Scheduler(self.store, {"job": self.kind}, self.clock)
        self.members = [_Member(self, number) for number in range(3)]
        self.planned = [self._plan(number) for number in range(self.chance.randint(4, 6))]

    def close(self) -> None:
        self.store.close()

    # -- what there is to do -----------------------------------------------------------------------------------

    def _plan(self, number: int) -> Planned:
        chance = self.chance
        period = chance.choice([1, 1, 2, 3]) * SECOND
        first = Instant(START + chance.randrange(1, 5 * SECOND))
        last = Instant(first + chance.randrange(20, 60) * SECOND)
        policy: dict[str, Any] = {
            "pause_after": 0,
            "overlap": chance.choice(["skip", "queue", "allow"]),
            "catch_up": chance.choice(["once", "all", "all", "skip"]),
        }
        if chance.random() < 0.3:
            policy["at_most_once"] = True
        elif chance.random() < 0.5:
            policy |= {"max_attempts": chance.randint(2, 4), "backoff": SECOND}
        config = {"seconds": period / SECOND, "start": _text(first), "end": _text(last)}
        new = NewSchedule("job", f"schedule {number}", "interval", config, {}, policy)
        made = self.scheduler.create_many(CALLER, [new])
        return Planned(made[0].definition.public_id, first, period, last, policy)

    # -- what happens ------------------------------------------------------------------------------------------

    def play(self) -> bool:
        """Play all rounds; return False if something is still under way at the end."""
        self.faulty = True
        for _ in range(ROUNDS):
            self._disturb()
            self._step(self.chance.choice([0.02, 0.1, 0.5, 1.0]))
        self.faulty = False
        for member in self.members:
            member.asleep = 0
        for _ in range(QUIET_ROUNDS):
            self._step(1.0)
            if self._over():
                return True
        return False

    def _step(self, seconds: float) -> None:
        """Let time pass and every worker do each of its steps once, in an order that chance decides."""
        self.clock.move_to(Instant(self.clock.now() + int(seconds * SECOND)))
        steps = [step for member in self.members for step in member.steps()]
        self.chance.shuffle(steps)
        for step in steps:
            try:
                step()
            except (StoreUnavailable, WorkerGone):
                pass  # the next round tries again, as the engine does

    def _disturb(self) -> None:
        """Let workers die or sleep for longer than their lease, set the clock, and let people intervene."""
        chance = self.chance
        for member in self.members:
            if member.asleep:
                member.asleep -= 1
            elif chance.random() < 0.015:
                member.die(chance.randrange(1, 20))
            elif chance.random() < 0.015:
                member.asleep = chance.randrange(2, 40)
        if chance.random() < 0.01:
            self._set_clock(chance.randrange(-30, 30))
        if chance.random() < 0.05:
            acts: list[Callable[[Caller, str], object]]
            acts = [self.scheduler.pause, self.scheduler.resume, self.scheduler.run_now]
            act = chance.choice(acts)
            with suppress(DuetimeError):
                act(CALLER, chance.choice(self.planned).public_id)

    def _set_clock(self, seconds: int) -> None:
        """Set the clock. A run that was claimed ahead still starts after as long as it was ahead."""
        self.clock.jump(by=timedelta(seconds=seconds))
        self._ahead = max(self._ahead, self.clock.now() - START - int(self.clock.monotonic() * SECOND))
        self.set_back |= seconds < 0

    @property
    def latest(self) -> Instant:
        return Instant(START + int(self.clock.monotonic() * SECOND) + self._ahead)

    def _over(self) -> bool:
        """Return whether nothing is due any more, after resuming what a quarantine or a person has paused."""
        joined = "SELECT public_id FROM schedules JOIN progress ON schedule = id WHERE state = 'paused'"
        paused = self.store._rows(joined, ())
        for (public_id,) in paused:
            with suppress(DuetimeError):
                self.scheduler.resume(CALLER, public_id)
        live = self.store._rows("SELECT 1 FROM runs WHERE finished IS NULL LIMIT 1", ())
        due = self.store._rows("SELECT 1 FROM due LIMIT 1", ())
        return not (paused or live or due)

    def fault(self) -> str | None:
        """Return whether the call at hand fails before it is written, after, or not at all."""
        if not self.faulty or (drawn := self.chance.random()) >= 0.02:
            return None
        return "before" if drawn < 0.01 else "after"

    def note_answers(self, finished: Sequence[Any], answers: Sequence[Receipt]) -> None:
        for item, answer in zip(finished, answers, strict=True):
            if answer is Receipt.RECORDED:
                if (item.run, item.fence) in self.recorded:
                    self.doubled.append(f"the outcome of run {item.run}, fence {item.fence}, was recorded twice")
                self.recorded[item.run, item.fence] = type(item.outcome).__name__


class _Member:
    """A worker process: it may die, and it may stand still while time goes on."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.asleep = 0
        self.worker: Worker | None = None

    def die(self, rounds: int) -> None:
        self.worker = None
        self.asleep = rounds

    def steps(self) -> list[Callable[[], object]]:
        if self.asleep:
            return []
        if self.worker is None:
            return [self._begin]
        worker = self.worker
        return [
            worker.beat,
            worker.rescue,
            worker.record_and_claim,
            self._execute,
            self._execute,
            worker.record_and_claim,
        ]

    def _begin(self) -> None:
        options = WorkerOptions(lease=LEASE, name=f"worker {self.number}")
        store: Any = _FaultyStore(self.world)
        worker = Worker(store, {"job": self.world.kind}, self.world.clock, options)
        worker.register()
        self.executor = _Line()
        self.later: list[tuple[float, ClaimedRun]] = []
        worker.executor = self.executor
        worker.start_later = self._start_later  # type: ignore[method-assign]
        self.worker = worker

    def _start_later(self, seconds: float, item: ClaimedRun) -> None:
        self.later.append((self.world.clock.monotonic() + seconds, item))

    def _execute(self) -> None:
        """Begin what has come to its instant, and carry out one run."""
        now = self.world.clock.monotonic()
        self.executor.put([item for at, item in self.later if at <= now])
        self.later = [pair for pair in self.later if pair[0] > now]
        if self.executor.items and self.worker is not None:
            self.worker.execute(self.executor.items.pop(0))


class _Line:
    """Holds runs until the world lets one be carried out."""

    size = 4

    def __init__(self) -> None:
        self.items: list[ClaimedRun] = []

    @property
    def free(self) -> int:
        return max(0, self.size - len(self.items))

    def put(self, items: Sequence[ClaimedRun]) -> None:
        self.items += items

    def take_back(self, before: float | None = None) -> list[ClaimedRun]:
        items, self.items = self.items, []
        return items

    def take_stalled(self, before: float) -> list[ClaimedRun]:
        return self.take_back() if self.items and self.items[0].since < before else []

    def head(self) -> ClaimedRun | None:
        return self.items[0] if self.items else None


class _FaultyStore:
    """The store as one worker sees it: an answer may get lost, before or after the commit."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._world.store, name)
        return self._unsure(name, found) if name in FAULTY else found

    def _unsure(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            fault = self._world.fault()
            if fault == "before":
                raise StoreUnavailable("lost on the way there")
            result = method(*args, **kwargs)
            if name == "record_and_claim":
                self._world.note_answers(args[2], result.answers)
            if fault == "after":
                raise StoreUnavailable("lost on the way back")
            return result

        return call


class _Scripted:
    """A kind whose attempts end as chance decides, and that keeps a log of them."""

    name = "job"
    defaults: Mapping[str, Any] = MappingProxyType({})
    counts_depth = True
    thread_use = ThreadUse.SHARED
    remembered: tuple[str, ...] = ()

    def __init__(self, world: World) -> None:
        self._world = world

    def scopes_for(self, definition: Definition) -> tuple[str, ...]:
        return ()

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return "job_{id}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        return Prepared(payload, self.name)

    def execute(self, work: Work) -> Outcome:
        run, drawn = work.claim.run, self._world.chance.random()
        outcome: Outcome = Completed("1") if drawn < 0.8 else Failed("as chance had it", permanent=drawn > 0.97)
        ends = "permanent" if drawn > 0.97 else type(outcome).__name__
        self._world.executions.append(
            Execution(run.id, run.schedule, run.due, run.attempt, run.fence, ends, self._world.latest)
        )
        return outcome

    def close(self) -> None:
        """Do nothing, since nothing was started."""


def _text(instant: Instant) -> str:
    return datetime_of(instant).isoformat()
