"""Random sequences of changes, failures and deaths of workers against what a gate should do, kept beside it in a few
lines."""

from __future__ import annotations

import random
from typing import Any

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import RunId
from duetime.engine.policy import changes
from duetime.engine.worker.runner import ClaimedRun
from duetime.stores.base import BaseStore
from tests.support.gate_world import GateWorld

STEPS = 40


class Expected:
    """What the gate is to compare with: what it gave last to a run that has not ended, or the latest success."""

    def __init__(self) -> None:
        self.success: tuple[int, Any] | None = None
        self.live: dict[RunId, tuple[int, Any]] = {}
        self.number = 0

    def passes(self, run: RunId, page: Any) -> bool:
        if run in self.live:
            return True  # it keeps what it was given before its worker died
        latest = max([*self.live.values(), *([self.success] if self.success else [])], default=None)
        self.number += 1
        if latest is None:
            self.success = self.number, page
        if latest is None or latest[1] == page:
            return False
        self.live[run] = self.number, page
        return True

    def end(self, run: RunId, *, fails: bool) -> None:
        given = self.live.pop(run)
        if not fails and (self.success is None or given > self.success):
            self.success = given


class Sequence:
    def __init__(self, store: BaseStore, seed: int) -> None:
        self.chance = random.Random(seed)
        overlap = self.chance.choice(["skip", "queue", "allow"])
        self.world = GateWorld(store, overlap=overlap, pause_after=0)
        self.line, self.expected = self.world.hold(), Expected()
        self.page = self.world.page = 0
        self.checked: list[ClaimedRun] = []
        self.successes: list[Any] = []
        self.kills = 0

    def play(self) -> None:
        acts = [self.change, self.pass_a_minute, self.pass_a_minute, self.look, self.look, self.finish, self.kill]
        weights = [3, 5, 5, 6, 6, 8, 1]
        for _ in range(STEPS):
            self.chance.choices(acts, weights)[0]()
        self.calm_down()

    def change(self) -> None:
        self.page = self.world.page = self.page + 1

    def pass_a_minute(self) -> None:
        clock = self.world.clock
        clock.move_to(Instant(clock.now() + MINUTE))
        self.world.worker.tick()

    def look(self) -> None:
        if self.line.items:
            item = self.line.items.pop(self.chance.randrange(len(self.line.items)))
            expected = self.expected.passes(item.id, self.page)
            assert self.world.check(item) is expected
            if expected:
                self.checked.append(item)

    def finish(self, *, may_fail: bool = True) -> None:
        if self.checked:
            item = self.checked.pop(self.chance.randrange(len(self.checked)))
            fails = may_fail and self.chance.random() < 0.4
            before = len(self.world.works)
            self.world.finish(item, fails=fails)
            assert self.world.works[before:] == [self.expected.live[item.id][1]], "it gets what its gate saw"
            if not fails:
                self.successes.append(self.expected.live[item.id][1])
            self.expected.end(item.id, fails=fails)

    def kill(self) -> None:
        """Let the worker die, with what it holds before a look, between look and work, or after work of which nobody
        heard. A third time, a run that it holds would be quarantined."""
        if self.kills == 2:
            return
        self.kills += 1
        for item in self.checked:
            if self.chance.random() < 0.5:
                before = len(self.world.works)
                self.world.work(item, fails=self.chance.random() < 0.4)
                assert self.world.works[before:] == [self.expected.live[item.id][1]], "it gets what its gate saw"
        self.checked.clear()
        self.world.kill()
        self.line = self.world.hold()

    def calm_down(self) -> None:
        """Let everything succeed from now on: nothing may be lost, and nothing done twice."""
        for _ in range(6):
            self.pass_a_minute()
            while self.line.items or self.checked:
                self.look()
                self.finish(may_fail=False)
        assert self.expected.success is not None and self.expected.success[1] == self.page
        assert self.page == 0 or self.page in self.successes or not self.was_seen()
        assert len(self.successes) == len(set(self.successes)), "no change runs again after its success"
        assert not self.expected.live
        self.world.store.change(self.world.schedule, self.world.clock.now(), changes.cancel)

    def was_seen(self) -> bool:
        """Return whether the page had another look before it showed what it shows now."""
        first = self.world.runs()[0]
        return not (first.status == "skipped" and not self.successes)
