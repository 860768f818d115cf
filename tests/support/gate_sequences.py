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


class ExpectedOfTwo(Expected):
    """The same for two steps, a page that differs and a state that becomes red. While a run has not ended, only its
    success may change what both remember."""

    def passes(self, run: RunId, page: Any) -> bool:
        if run in self.live:
            return True
        latest = max([*self.live.values(), *([self.success] if self.success else [])], default=None)
        self.number += 1
        is_red = page["state"] == "red"
        if latest is None:
            self.success = self.number, (page["number"], is_red)
            return False
        seen, was_red = latest[1]
        if seen == page["number"]:
            return False
        if not is_red and was_red and not self.live:
            self.success = self.number, (seen, False)
        if not is_red or was_red:
            return False
        self.live[run] = self.number, (page["number"], True)
        return True


class Sequence:
    gate = "page() | changed()"
    overlaps = ("skip", "queue", "allow")
    steps = STEPS

    def __init__(self, store: BaseStore, seed: int) -> None:
        self.chance = random.Random(seed)
        overlap = self.chance.choice(self.overlaps)
        self.world = GateWorld(store, self.gate, overlap=overlap, pause_after=0)
        self.line, self.expected = self.world.hold(), self.expect()
        self.page: Any = 0
        self.world.page = self.page
        self.checked: list[ClaimedRun] = []
        self.successes: list[Any] = []
        self.kills = 0

    def expect(self) -> Expected:
        return Expected()

    def given(self, run: RunId) -> Any:
        """Return what the work of a run is to get."""
        return self.expected.live[run][1]

    def play(self) -> None:
        acts = [self.change, self.pass_a_minute, self.pass_a_minute, self.look, self.look, self.finish, self.kill]
        weights = [3, 5, 5, 6, 6, 8, 1]
        for _ in range(self.steps):
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
            assert self.world.works[before:] == [self.given(item.id)], "it gets what its gate saw"
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
                assert self.world.works[before:] == [self.given(item.id)], "it gets what its gate saw"
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
        self.check_end()
        assert not self.expected.live
        self.world.store.change(self.world.schedule, self.world.clock.now(), changes.cancel)

    def check_end(self) -> None:
        assert self.expected.success is not None and self.expected.success[1] == self.page
        assert self.page == 0 or self.page in self.successes or not self.was_seen()
        assert len(self.successes) == len(set(self.successes)), "no change runs again after its success"

    def was_seen(self) -> bool:
        """Return whether the page had another look before it showed what it shows now."""
        first = self.world.runs()[0]
        return not (first.status == "skipped" and not self.successes)


class SequenceOfTwo(Sequence):
    """A gate with two steps that compare: a page, and a state in it."""

    gate = "page() | changed() | field('state') | became('red')"
    overlaps = ("skip", "allow", "allow")
    steps = 2 * STEPS
    """Few pages pass both, and then others are to be looked at while a run goes on."""

    def __init__(self, store: BaseStore, seed: int) -> None:
        super().__init__(store, seed)
        self.number, self.page = 0, {"number": 0, "state": "green"}
        self.before = self.world.page = self.page

    def expect(self) -> Expected:
        return ExpectedOfTwo()

    def given(self, run: RunId) -> Any:
        return "red"

    def change(self) -> None:
        """Show another page, or the one before again."""
        self.number += 1
        page = {"number": self.number, "state": self.chance.choice(["green", "red", "red"])}
        goes_back = self.chance.random() < 0.3
        self.before, self.page = self.page, self.before if goes_back else page
        self.world.page = self.page

    def check_end(self) -> None:
        """If the page is red, a run has succeeded with it, or with a red one and no other colour since."""
        assert self.expected.success is not None
        seen, was_red = self.expected.success[1]
        assert was_red == (self.page["state"] == "red") or seen == self.page["number"]
