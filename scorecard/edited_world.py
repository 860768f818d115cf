"""A world that one seed decides: schedules that people edit, pause, move and retry over 60 simulated days.

`Book` is a second, simple account of when each schedule fires by the edits that were acknowledged. It shares no code
with the engine, so that a mistake there cannot hide itself here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any, NamedTuple

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant, datetime_of, instant_of
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller, Kind, Prepared, ThreadUse
from duetime.engine.limits import MOST_CHANGES
from duetime.engine.model import Definition, RunStatus, Schedule, ScheduleState
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.engine.policy.catch_up import Answers, evaluate
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.record import Finished
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ClaimRequest, RunQuery
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from duetime.testing import SettableClock

START = instant_of(datetime(2026, 1, 1, tzinfo=UTC))
DAYS = 60
FARTHEST = 40
"""Days ahead that a new rule may start."""
CALLER = Caller("local", operator=True)
LANES = ("job", "job:exact")


class Rule(NamedTuple):
    """A rule as it was asked for: every `period` from `first` on, or daily at a time of day if there is no period."""

    first: int
    period: int = 0
    start: int | None = None
    end: int | None = None

    def instants(self, after: int, until: int) -> Iterator[int]:
        """Yield the instants after one instant, up to and including another."""
        period, last = self.period or DAY, until if self.end is None else min(until, self.end)
        lower = max(after + 1, self.start or 0, self.first if self.period else 0)
        at = self.first + -(-(lower - self.first) // period) * period
        while at <= last:
            yield at
            at += period


class Era(NamedTuple):
    """The time from which a rule applies, until the next era begins."""

    begin: int
    rule: Rule


@dataclass
class Book:
    """When a schedule has to fire, by everything that was asked for and acknowledged."""

    public_id: str
    eras: list[Era]
    moved: list[tuple[int, int]] = field(default_factory=list)
    """When the next occurrence was moved, and to when: what lies between does not happen."""
    pending_move: int | None = None
    done_moves: set[int] = field(default_factory=set)
    """Moved occurrences whose time has come."""

    def rule_at(self, instant: int) -> Rule:
        return [era.rule for era in self.eras if era.begin <= instant][-1]

    def changes_after(self, now: int, until: int) -> int:
        return sum(now < era.begin < until for era in self.eras)

    def replace(self, rule: Rule, starting: int | None, now: int) -> None:
        """Follow another rule from now or from a later time on; a rule that would have begun after that never does."""
        self._void_move(now)
        begin = now + 1 if starting is None else starting
        self.eras = [*(era for era in self.eras if era.begin < begin), Era(begin, rule)]

    def move(self, target: int, now: int) -> None:
        self._void_move(now)
        self.moved.append((now, target))
        self.pending_move = target

    def _void_move(self, now: int) -> None:
        """Forget a move whose time has not come: until now, the occurrences that it replaced do not happen either."""
        if self.pending_move is not None and self.pending_move > now:
            self.moved[-1] = (self.moved[-1][0], now + 1)
        self.pending_move = None

    def instants(self, after: int, until: int) -> list[int]:
        """Return the occurrences after one instant, up to and including another."""
        ends = [era.begin - 1 for era in self.eras[1:]] + [until]
        found = {
            at
            for era, end in zip(self.eras, ends, strict=True)
            for at in era.rule.instants(max(after, era.begin - 1), min(until, end))
        }
        for asked, target in self.moved:
            found = {at for at in found if not asked < at < target}
        if self.pending_move is not None and after < self.pending_move <= until:
            found.add(self.pending_move)
        return sorted(found | {at for at in self.done_moves if after < at <= until})

    def pass_time(self, now: int) -> None:
        if self.pending_move is not None and self.pending_move <= now:
            self.done_moves.add(self.pending_move)
            self.pending_move = None

    def next_after(self, now: int) -> int | None:
        until = max([now, *(era.begin for era in self.eras), *(era.rule.start or 0 for era in self.eras)]) + 3 * DAY
        return next(iter(self.instants(now, max(until, (self.pending_move or 0) + 3 * DAY))), None)


class EditedWorld:
    """Some schedules, a worker that is sometimes away, and people who change their minds; the seed decides all."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = SettableClock(START)
        self.store = SqliteStore(MEMORY, self.clock, MESSENGER)
        self.store.migrate()
        kind: Kind = _Plain()
        self.scheduler = Scheduler(self.store, {"job": kind}, self.clock)
        self.worker = self.store.register("worker", LANES, False, START)
        self.failures: list[str] = []
        self.acts = 0
        self.held: list[tuple[int, int, Claim]] = []
        """Runs in progress: when they end, the number of the run, and its claim."""
        self.answers: Answers = {}
        """What was found outside of a transaction about costly rules, as a worker does."""
        self.away_until = 0
        self.books = [self._create(number) for number in range(self.chance.randint(2, 3))]

    def close(self) -> None:
        self.store.close()

    def play(self) -> None:
        """Let 60 days pass. At the end, everything that was paused goes on, and everything that runs ends."""
        end = START + DAYS * DAY
        while self.clock.now() < end and not self.failures:
            self._pass_time(min(end, self.clock.now() + self.chance.randrange(HOUR, 2 * DAY)))
            self._intervene()
            self._check_next_times()
        self.away_until = 0
        for book in self.books:
            self._resume(book)
        self._pass_time(self.clock.now() + HOUR)

    # -- time passes ---------------------------------------------------------------------------------------------------

    def _pass_time(self, until: int) -> None:
        while (event := self._next_event()) is not None and event <= until:
            self._move_to(max(event, self.clock.now()))
            now = self.clock.now()
            if now < self.away_until:
                continue
            self._exchange(now)
        self._move_to(until)

    def _move_to(self, at: int) -> None:
        self.clock.move_to(Instant(at))
        for book in self.books:
            book.pass_time(at)

    def _next_event(self) -> int | None:
        """Return when the worker has something to do: a run ends, an entry is due, or it comes back."""
        due = self.store.earliest(LANES)
        times = [at for at, *_ in self.held[:1]] + ([] if due is None else [due.at])
        return max(min(times), self.away_until) if times else None

    def _exchange(self, now: Instant) -> None:
        finished = []
        while self.held and self.held[0][0] <= now:
            claim = heappop(self.held)[2]
            finished.append(Finished(claim.run.id, claim.run.fence, self._outcome(), claim.run.started, now))
        due = self.store.earliest(LANES)
        requests = [] if due is None or due.at > now else [ClaimRequest(due.lane, 100, now)]
        exchanged = self.store.record_and_claim(self.worker, now, finished, requests, answers=self.answers)
        self.answers = evaluate(exchanged.postponed, now)
        for claim in exchanged.claims:
            heappush(self.held, (now + self._duration(), claim.run.id, claim))

    def _outcome(self) -> Outcome:
        return Completed("1") if self.chance.random() < 0.75 else Failed("as chance decided")

    def _duration(self) -> int:
        return self.chance.choice([1, MINUTE, MINUTE, HOUR, 7 * HOUR, 30 * HOUR])

    # -- people --------------------------------------------------------------------------------------------------------

    def _create(self, number: int) -> Book:
        chance = self.chance
        now = self.clock.now()
        rule, type_, config = self._rule(now, None, None)
        if chance.random() < 0.3:  # it begins later
            start = now + chance.randrange(10 * DAY)
            rule = rule._replace(start=start, first=start if rule.period else rule.first)
            config["start"] = _text(start)
        if chance.random() < 0.3:
            rule = rule._replace(end=now + chance.randrange(20, 100) * DAY)
            config["end"] = _text(rule.end or 0)
        policy: dict[str, Any] = {"pause_after": 0, **self._policy()}
        if chance.random() < 0.2:
            policy["at_most_once"] = True
        elif chance.random() < 0.5:
            policy |= {"max_attempts": chance.randint(2, 3), "backoff": HOUR}
        new = NewSchedule("job", f"schedule {number}", type_, config, {}, policy)
        made = self.scheduler.create_many(CALLER, [new])
        return Book(made[0].definition.public_id, [Era(0, rule)])

    def _rule(self, now: int, inherited: Rule | None, starting: int | None) -> tuple[Rule, str, dict[str, Any]]:
        """Return a random rule, for the book and as a request. The limits of the rule in force stay."""
        chance = self.chance
        begin = now if starting is None else starting
        start = None if inherited is None or inherited.start is None or inherited.start <= begin else inherited.start
        end = None if inherited is None else inherited.end
        if chance.random() < 0.6:
            hours = chance.choice([2, 3, 5, 8, 12, 36])
            first = start or (begin + hours * HOUR if starting is None else begin)
            return Rule(first, hours * HOUR, start, end), "interval", {"hours": hours}
        minute, hour = chance.randrange(60), chance.randrange(24)
        return Rule(hour * HOUR + minute * MINUTE, 0, start, end), "cron", {"expression": f"{minute} {hour} * * *"}

    def _policy(self) -> dict[str, Any]:
        chance = self.chance
        return {
            "overlap": chance.choice(["skip", "queue", "queue", "allow"]),
            "catch_up": chance.choice(["once", "all", "skip"]),
            "queue_limit": chance.randint(1, 3),
        }

    def _intervene(self) -> None:
        book = self.chance.choice(self.books)
        acts: dict[Callable[[Book], None], int] = {self._edit: 5, self._pause: 3, self._resume: 3, self._retry: 2}
        acts |= dict.fromkeys((self._run_now, self._move, self._edit_policy, self._leave), 1)
        (act,) = self.chance.choices(list(acts), list(acts.values()))
        act(book)
        self.acts += 1

    def _edit(self, book: Book) -> None:
        """Replace the rule, at once or from a later time on."""
        chance, now = self.chance, self.clock.now()
        starting = now + chance.randrange(1, FARTHEST * DAY) if chance.random() < 0.5 else None
        begin = now if starting is None else starting
        rule, type_, config = self._rule(now, book.rule_at(begin), starting)
        if chance.random() < 0.15:
            rule = rule._replace(end=begin + chance.randrange(1, 50) * DAY if chance.random() < 0.5 else None)
            config["end"] = None if rule.end is None else _text(rule.end)
        changes = Changes(
            trigger_type=type_, trigger_config=config, starting=None if starting is None else Instant(starting)
        )
        refusal = self._try(partial(self.scheduler.edit, CALLER, book.public_id, changes))
        fires = next(rule.instants(begin - (starting is not None), begin + 150 * DAY), None) is not None
        room = starting is None or book.changes_after(now, starting) < MOST_CHANGES
        if refusal is None:
            book.replace(rule, starting, now)
        elif fires and room and self.schedule(book).progress.state != ScheduleState.ENDED:
            self.failures.append(f"{book.public_id}: an edit was refused: {refusal}")

    def _edit_policy(self, book: Book) -> None:
        self._try(partial(self.scheduler.edit, CALLER, book.public_id, Changes(policy=self._policy())))

    def _move(self, book: Book) -> None:
        now = self.clock.now()
        target = Instant(now + self.chance.randrange(1, 3 * DAY))
        was_active = self.schedule(book).progress.state in (ScheduleState.ACTIVE, ScheduleState.PAUSED)
        refusal = self._try(partial(self.scheduler.edit, CALLER, book.public_id, Changes(next=target)))
        if refusal is None and was_active:
            book.move(target, now)

    def _pause(self, book: Book) -> None:
        until = (
            Instant(self.clock.now() + self.chance.randrange(HOUR, 10 * DAY)) if self.chance.random() < 0.5 else None
        )
        self._try(partial(self.scheduler.pause, CALLER, book.public_id, until=until))

    def _resume(self, book: Book) -> None:
        self._try(partial(self.scheduler.resume, CALLER, book.public_id))

    def _run_now(self, book: Book) -> None:
        self._try(partial(self.scheduler.run_now, CALLER, book.public_id))

    def _retry(self, book: Book) -> None:
        query = RunQuery(schedule=self.schedule(book).definition.id, status=RunStatus.FAILED, limit=5, count_to=0)
        runs = self.store.runs(query).items
        if runs:
            self._try(partial(self.scheduler.retry, CALLER, self.chance.choice(runs).id))

    def _try(self, change: Callable[[], object]) -> DuetimeError | None:
        """Make a change; return why it was refused, or None."""
        try:
            change()
        except DuetimeError as error:
            return error
        return None

    def _leave(self, book: Book) -> None:
        """Let the worker be away for a while; what it holds ends meanwhile and is recorded when it is back."""
        self.away_until = self.clock.now() + self.chance.randrange(HOUR, 4 * DAY)

    # -- checks --------------------------------------------------------------------------------------------------------

    def schedule(self, book: Book) -> Schedule:
        found = self.store.find(book.public_id)
        assert found is not None
        return found

    def _check_next_times(self) -> None:
        """Check that a schedule is active if and only if its rule still fires, and that it knows when it fires next."""
        now = self.clock.now()
        for book in self.books:
            progress = self.schedule(book).progress
            due, known = book.next_after(now), progress.next
            if progress.state == ScheduleState.ACTIVE and (known is None or known > now) and known != due:
                self.failures.append(f"{book.public_id} fires next at {known}, and its rule says {due} (now: {now})")
            if progress.state == ScheduleState.ENDED and due is not None:
                self.failures.append(f"{book.public_id} has ended, and its rule fires at {due}")
            if progress.state == ScheduleState.BROKEN:
                self.failures.append(f"{book.public_id} is broken: {progress.note}")


class _Plain:
    """A kind whose runs the world itself ends."""

    name = "job"
    defaults: Mapping[str, Any] = MappingProxyType({})
    counts_depth = True
    thread_use = ThreadUse.SHARED
    remembered: tuple[str, ...] = ()

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return "job_{id}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        return Prepared(payload, self.name)

    def execute(self, work: Any) -> Outcome:
        raise AssertionError("the world ends the runs itself")

    def scopes_for(self, definition: Definition) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Do nothing, since nothing was started."""


def _text(instant: int) -> str:
    return datetime_of(Instant(instant)).isoformat()
