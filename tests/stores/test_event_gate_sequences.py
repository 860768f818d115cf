"""Events and gates in random sequences: an event that its gate lets pass is lost for none that it refuses."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import RunId, RunStatus, ScheduleState, event_of
from duetime.engine.outcome import Completed, Failed, Outcome, Skipped, Waiting
from duetime.engine.policy import changes, checkout
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.finish import NEWER, REACHED
from duetime.engine.policy.gates import GateGift, give
from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.drafts import T0
from tests.support.gate_world import GATE
from tests.support.hand import Hand, create_one, runs_of, the
from tests.support.happenings import expand, send, waits
from tests.support.invariants import invariants
from tests.support.size import FULL

EACH = 1000 if FULL else 30
REFUSED = "its gate refused it"


class Sequence:
    """A schedule that waits for events, some of which its gate refuses, and a worker that is played step by step."""

    def __init__(self, store: BaseStore, seed: int) -> None:
        self.store, self.random, self.now = store, Random(seed), T0 + 0
        self.name, self.lane = f"e{seed}", f"lane{seed}"
        self.is_prompt = self.random.random() < 0.5
        self.max_runs = self.random.choice([None, None, 1, 2])
        self.overlap = self.random.choice(["latest", "latest", "queue"])
        options = {"overlap": self.overlap, "only_if": GATE, "max_runs": self.max_runs, "max_attempts": 2, "backoff": 1}
        cooldown = self.random.choice([0, 0, 5 * SECOND])
        self.schedule = create_one(store, waits(self.name, cooldown=cooldown, kind=self.lane, **options))
        self.hand = Hand(store, f"{seed}", self.now)
        self.working: list[Claim] = []
        self.passes: dict[int, bool] = {}
        self.given: set[RunId] = set()

    def play(self) -> None:
        steps = [self.send, self.send, self.work, self.work, self.work, self.take, self.die, self.rest]
        for _ in range(40):
            self.now += self.random.choice([1, 1, SECOND])
            self.random.choice(steps)()
            invariants(self.store)
        self.drain()
        self.check()

    def send(self) -> None:
        event = send(self.store, self.name, at=self.now).event_id
        self.passes[event] = self.random.random() < 0.5
        if self.random.random() < 0.7:
            expand(self.store, self.now)

    def rest(self) -> None:
        """Pause in the middle of whatever happens, and go on before the next event arrives."""
        if self.state == ScheduleState.ACTIVE:
            expand(self.store, self.now)
            self.store.change(self.schedule, Instant(self.now), changes.pause)
            self.work()
        if self.state == ScheduleState.PAUSED:
            self.store.change(self.schedule, Instant(self.now), changes.resume)

    @property
    def state(self) -> str:
        return the(self.store, self.schedule).progress.state

    def work(self) -> None:
        lanes = (self.lane,)
        self.working += self.hand.claim(self.now, 1, lanes=lanes)
        if self.working and self.random.random() < 0.7:
            claim = self.working.pop(0)
            outcome = self.outcome(claim)
            if outcome is not None:
                self.hand.record([claim], self.now, outcome)

    def outcome(self, claim: Claim) -> Outcome | None:
        run = claim.run
        if self.store.gate_gift(run.id) is None:
            if not self.passes[event_of(run.cause) or 0]:
                return Skipped(REFUSED)
            gift = GateGift(result='"x"')
            if self.store.change_run(run.id, Instant(self.now), partial(give, fence=run.fence, gift=gift)) is None:
                return None
        if self.is_prompt:
            return Waiting(None)
        return Failed("it failed") if self.random.random() < 0.2 else Completed('"done"')

    def take(self, *, all_of_them: bool = False) -> None:
        for run in runs_of(self.store, self.schedule):
            if run.status == RunStatus.WAITING and (all_of_them or self.random.random() < 0.3):
                until = Instant(self.now + SECOND)
                if run.holder is None:
                    self.store.change_run(
                        run.id, Instant(self.now), partial(checkout.hold, holder="ann", expires=until)
                    )
                if all_of_them or self.random.random() < 0.5:
                    now = Instant(self.now)
                    done = Completed('"done"')
                    try:
                        self.store.change_run(run.id, now, partial(checkout.finish, holder="ann", outcome=done))
                    except Exception as error:  # the lease has lapsed
                        assert "not yours" in str(error)

    def die(self) -> None:
        self.hand.die(self.now)
        self.working.clear()
        self.hand = Hand(self.store, f"{self.name} {self.now}", self.now)

    def drain(self) -> None:
        for _ in range(200):
            self.now += 10 * SECOND
            expand(self.store, self.now)
            self.working += self.hand.claim(self.now, 10, lanes=(self.lane, f"{self.lane}:solo"))
            while self.working:
                claim = self.working.pop(0)
                outcome = self.outcome(claim)
                if outcome is not None:
                    self.hand.record([claim], self.now, outcome)
            live = [run for run in runs_of(self.store, self.schedule) if run.finished is None]
            if not live:
                break
            if all(run.status == RunStatus.WAITING for run in live):
                self.take(all_of_them=True)
        invariants(self.store)

    def check(self) -> None:
        rows = {event_of(run.cause): run for run in runs_of(self.store, self.schedule)}
        ran = [run for run in rows.values() if run.status in ("completed", "failed", "lost")]
        assert self.max_runs is None or len(ran) <= self.max_runs
        ended = self.state == ScheduleState.ENDED
        assert ended == (self.max_runs is not None and len(ran) >= self.max_runs)
        for event, passes in self.passes.items():
            run = rows.get(event)
            if run is None:
                assert ended, "no row"
                continue
            later = [each for each, it in self.passes.items() if it and each > event and each in rows]
            assert run.finished is not None, run
            if not passes:
                assert run.status == RunStatus.SKIPPED, run
            elif run.status == RunStatus.SKIPPED:
                assert (run.error == NEWER and self.overlap == "latest" and later) or (
                    run.error == REACHED and ended
                ), run
            elif run.status == RunStatus.MISSED:
                assert self.is_prompt and later, run
            else:
                assert run in ran, run


def test_sequences(store: BaseStore) -> None:
    for seed in range(5):
        Sequence(store, seed).play()


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.later) for part in range(1, 4))])
def test_many_sequences(part: int) -> None:
    store = SqliteStore(MEMORY)
    store.migrate()
    for seed in range(part * EACH, (part + 1) * EACH):
        try:
            Sequence(store, seed).play()
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
    store.close()
