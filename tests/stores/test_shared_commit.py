"""Callers that share a commit wake each other, whoever of them is interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from duetime.engine.errors import StoreUnusable
from duetime.stores import shared_commit
from duetime.stores.shared_commit import MANY_CALLERS, SharedCommit, _Turn

PATIENCE = 10.0


class Interrupted(BaseException):
    pass


class Callers:
    """Callers who come while the first one writes, so that the second one writes for all others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interrupted: int | None = None, when: str = "") -> None:
        self.woken_by: dict[int, int] = {}
        self.interrupted, self.when = interrupted, when
        self.is_written, self.is_gone = threading.Event(), threading.Event()
        self._begun, self._go_on = threading.Event(), threading.Event()
        self._me = threading.local()
        self._shared = SharedCommit[int, int](self._write)
        monkeypatch.setattr(shared_commit, "_Turn", self._turn)

    def _turn(self, item: int) -> _Turn[int, int]:
        turn = _Turn[int, int](item)
        turn.signal = Signal(self, item)  # type: ignore[assignment]
        return turn

    def woken(self, item: int) -> None:
        self.woken_by[item] = self._me.item

    def _write(self, items: list[int]) -> list[int]:
        if items == [0]:
            self._begun.set()
            assert self._go_on.wait(PATIENCE)
        elif self.when == "while it is written" and self.interrupted in items:
            self.is_written.set()
            assert self.is_gone.wait(PATIENCE)
        return [item * 10 for item in items]

    def _call(self, item: int) -> int:
        self._me.item = item
        try:
            return self._shared.write(item)
        finally:
            if item == self.interrupted:
                self.is_gone.set()

    def together(self, number: int) -> list[Any]:
        with ThreadPoolExecutor(number) as pool:
            futures = [pool.submit(self._call, 0)]
            assert self._begun.wait(PATIENCE)
            for item in range(1, number):
                futures.append(pool.submit(self._call, item))
                while len(self._shared._waiting) < item:
                    assert not futures[-1].done()
            self._go_on.set()
            return [future.exception(PATIENCE) or future.result() for future in futures]


class Signal:
    """What a caller waits for; notes who wakes it, and interrupts one of them."""

    def __init__(self, callers: Callers, item: int) -> None:
        self._callers, self._item = callers, item
        self._lock = threading.Lock()
        self._lock.acquire()

    def acquire(self) -> None:
        callers = self._callers
        if self._item == callers.interrupted and callers.when == "while it is written":
            assert callers.is_written.wait(PATIENCE)
            raise Interrupted
        assert self._lock.acquire(timeout=PATIENCE)
        if self._item == callers.interrupted:
            raise Interrupted

    def release(self) -> None:
        self._callers.woken(self._item)
        self._lock.release()


def test_everyone_who_continues_wakes_one_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Woken at once, they would only wait for the interpreter lock."""
    callers = Callers(monkeypatch)
    assert callers.together(6) == [0, 10, 20, 30, 40, 50]
    assert callers.woken_by == {1: 0, 2: 1, 3: 2, 4: 3, 5: 4}


def test_one_that_is_interrupted_while_it_is_written_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    callers = Callers(monkeypatch, 3, "while it is written")
    results = callers.together(6)
    assert isinstance(results.pop(3), Interrupted)
    assert results == [0, 10, 20, 40, 50]
    assert callers.woken_by == {1: 0, 2: 1, 4: 2, 5: 4}


def test_one_that_is_interrupted_when_it_is_woken_wakes_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    callers = Callers(monkeypatch, 3, "when it is woken")
    results = callers.together(6)
    assert isinstance(results.pop(3), Interrupted)
    assert results == [0, 10, 20, 40, 50]
    assert callers.woken_by == {1: 0, 2: 1, 3: 2, 4: 3, 5: 4}


class FirstOfMany:
    """A caller that finds so many others that it writes for half of them; nobody really waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shared: SharedCommit[int, int]) -> None:
        self.released: list[object] = []
        self.turns: list[Any] = [_Turn(number) for number in range(2 * MANY_CALLERS)]
        for turn in self.turns:
            turn.signal = self.Recorded(self, turn)
        self.shared = shared
        shared._led = True
        monkeypatch.setattr(shared_commit, "_Turn", lambda _item: self.turns[0])

    class Recorded:
        def __init__(self, many: FirstOfMany, turn: Any) -> None:
            self.many, self.turn = many, turn

        def acquire(self) -> None:
            """Be the one that is to write, when the others have come as well."""
            self.turn.leads = True
            self.many.shared._waiting += self.many.turns[1:]

        def release(self) -> None:
            self.many.released.append(self.turn)


def test_the_next_caller_to_write_goes_on_before_those_who_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they would be back, and wait for it, before it begins."""
    many = FirstOfMany(monkeypatch, SharedCommit[int, int](lambda items: items))
    assert many.shared.write(0) == 0
    written = [turn for turn in many.turns if turn.done]
    assert written == many.turns[: MANY_CALLERS + 1]
    assert many.released == [many.turns[len(written)], many.turns[1]]


def test_whoever_writes_for_others_checks_it_while_the_next_one_writes_and_before_anybody_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released_before: list[object] = []

    def check() -> None:
        released_before.extend(many.released)
        raise StoreUnusable("replaced")

    many = FirstOfMany(monkeypatch, SharedCommit[int, int](lambda items: items, check))
    with pytest.raises(StoreUnusable):
        many.shared.write(0)
    next_to_write = many.turns[MANY_CALLERS + 1]
    assert released_before == [next_to_write] and next_to_write.leads
    assert many.released == [next_to_write, many.turns[1]]
    assert [isinstance(turn.error, StoreUnusable) for turn in many.turns] == [turn.done for turn in many.turns]
