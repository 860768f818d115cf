"""A cluster in threads of the test, as another package would add it: it forgets, dies and comes back when told to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ClassVar

from duetime.kinds.jobs.executors import package
from duetime.kinds.jobs.remote import call

PATH = "tests.support.local_cluster:LocalCluster"


class ClusterState:
    """What a cluster knows, whoever is connected."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(8)
        self.calls: dict[str, Future[str]] = {}
        self.submitted: list[str] = []
        self.is_away = False
        self.connections = 0


class LocalCluster:
    needs_timeout = False
    at: ClassVar[dict[str, ClusterState]] = {}

    def __init__(self, address: str) -> None:
        self._state = self.at.setdefault(address, ClusterState())
        self._reached().connections += 1

    def submit(self, calls: Mapping[str, str]) -> None:
        state = self._reached()
        for key, text in calls.items():
            if key not in state.calls:
                state.submitted.append(key)
                state.calls[key] = state.pool.submit(call, text)

    def poll(self, keys: Collection[str]) -> Mapping[str, str | None]:
        calls = self._reached().calls
        return {key: calls[key].result() if calls[key].done() else None for key in keys if key in calls}

    def keys(self, prefix: str) -> Collection[str]:
        return [key for key in self._reached().calls if key.startswith(prefix)]

    def forget(self, keys: Collection[str]) -> None:
        for key in keys:
            self._reached().calls.pop(key).cancel()

    def workers(self) -> int | None:
        return self._reached().pool._max_workers

    def close(self) -> None:
        self._state.connections -= 1

    def _reached(self) -> ClusterState:
        if self._state.is_away:
            raise ConnectionError("nobody answers at amqp://ann:hunter2-hunter2@cluster")
        return self._state


class ForgetfulCluster(LocalCluster):
    """One that may lose a call without a trace."""

    needs_timeout = True


class UninstalledCluster(LocalCluster):
    """One whose package is missing."""

    def __init__(self, address: str) -> None:
        package("no_such_package", "rivers")
        super().__init__(address)
