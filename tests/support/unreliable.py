"""A store whose answers get lost, and work that a test controls: for faults that no signal can time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller, Prepared, ThreadUse, Work
from duetime.engine.model import Definition, RunId
from duetime.engine.outcome import Completed, Outcome
from duetime.engine.worker.runner import ClaimedRun

BEFORE, AFTER = "before", "after"


class Unreliable:
    """Passes everything on. A planned call of `method` fails before or after it is written."""

    def __init__(self, store: Any, plan: Mapping[int, str] | None = None, method: str = "record_and_claim") -> None:
        self._store, self._plan, self._method = store, plan or {}, method
        self.calls = 0
        self.answers: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._unsure(found) if name == self._method else found

    def _unsure(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            fault = self._plan.get(self.calls)
            if fault == BEFORE:
                raise StoreUnavailable("lost on the way there")
            result = method(*args, **kwargs)
            if self._method == "record_and_claim":
                self.answers += result.answers
            if fault == AFTER:
                raise StoreUnavailable("lost on the way back")
            return result

        return call


USES = {"notification": ThreadUse.RESERVED, "prompt": ThreadUse.CAPPED}
"""As for the kinds of these names."""


class Play:
    """A kind that does what the test says, and records which runs it received."""

    defaults: Mapping[str, Any] = MappingProxyType({})
    counts_depth = True
    remembered: tuple[str, ...] = ()

    def __init__(self, name: str = "job", act: Callable[[Work], Outcome] | None = None) -> None:
        self.name = name
        self.thread_use = USES.get(name, ThreadUse.SHARED)
        self._act = act
        self.begun: list[RunId] = []
        self._lock = threading.Lock()

    def scopes_for(self, definition: Definition) -> tuple[str, ...]:
        return ()

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return f"{self.name}_{{id}}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        return Prepared(payload, self.name)

    def execute(self, work: Work) -> Outcome:
        with self._lock:
            self.begun.append(work.claim.run.id)
        return Completed() if self._act is None else self._act(work)

    def close(self) -> None:
        """Do nothing, because nothing was started."""


class Line:
    """An executor whose threads a test controls: it records what was put, in order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size
        self.items: list[ClaimedRun] = []

    def put(self, items: Sequence[ClaimedRun]) -> None:
        self.items += items

    def take_back(self, before: float | None = None) -> list[ClaimedRun]:
        if before is not None and self.items and self.items[0].since >= before:
            return []
        items, self.items = self.items, []
        return items

    def head(self) -> ClaimedRun | None:
        return self.items[0] if self.items else None
