"""Runs tasks on a Dask cluster. Each call is a future that is published under its key, because unpublished futures end
with their client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from duetime.engine.encoding import error_text
from duetime.engine.tracebacks import traceback_of
from duetime.kinds.jobs.executors import package
from duetime.kinds.jobs.remote import call, failure

PATIENCE: Final = 10.0
"""Seconds that the cluster has to answer."""
MOST_ADOPTED: Final = 2000
"""Futures of another process that one poll takes over; the others count as running until the next."""


class DaskExecutor:
    needs_timeout = False

    def __init__(self, address: str) -> None:
        distributed = package("distributed", "dask")
        self._client = distributed.Client(address, timeout=PATIENCE, set_as_default=False, name="duetime")
        self._futures: dict[str, Any] = {}

    def submit(self, calls: Mapping[str, str]) -> None:
        for key in calls:  # of a scheduler that was restarted, and does not know them any more
            self._drop(key)
        keys, texts = list(calls), list(calls.values())
        futures = dict(zip(keys, self._client.map(call, texts, key=keys, pure=False), strict=True))
        self._client.publish_dataset(**futures, override=True)
        self._futures |= futures

    def poll(self, keys: Collection[str]) -> Mapping[str, str | None]:
        new = [key for key in keys if key not in self._futures][:MOST_ADOPTED]
        adopted = zip(new, self._for_each(self._client.get_dataset, new, default=None), strict=True)
        self._futures |= {key: future for key, future in adopted if future is not None}
        answers: dict[str, str | None] = dict.fromkeys(keys)
        known = {key: self._futures[key] for key in keys if key in self._futures}
        answers |= self._results({key: future for key, future in known.items() if future.status == "finished"})
        for key, future in known.items():
            if future.status == "error":
                answers[key] = _failure_of(future)
            elif future.status == "cancelled":
                self._drop(key)
                del answers[key]
        return answers

    def keys(self, prefix: str) -> Collection[str]:
        return [key for key in self._client.list_datasets(callback_timeout=PATIENCE) if key.startswith(prefix)]

    def forget(self, keys: Collection[str]) -> None:
        self._for_each(self._client.unpublish_dataset, keys)
        for key in keys:
            self._drop(key)

    def workers(self) -> int | None:
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def close(self) -> None:
        self._futures.clear()
        self._client.close(timeout=PATIENCE)

    def _for_each(self, question: Callable[..., Any], keys: Collection[str], **options: Any) -> list[Any]:
        """Ask the scheduler about many keys at once: one after the other would take milliseconds each."""

        async def gather() -> list[Any]:
            return await asyncio.gather(*(question(key, asynchronous=True, **options) for key in keys))

        answers: list[Any] = self._client.sync(gather, callback_timeout=3 * PATIENCE)
        return answers

    def _results(self, finished: dict[str, Any]) -> dict[str, str | None]:
        """Return the results. One that was lost with its worker is computed again, which may take long: it has none."""

        async def gather() -> Any:
            return await self._client.gather(finished, errors="skip", asynchronous=True)

        try:
            return dict(self._client.sync(gather, callback_timeout=PATIENCE)) if finished else {}
        except TimeoutError:
            return {}

    def _drop(self, key: str) -> None:
        future = self._futures.pop(key, None)
        if future is not None:
            future.release()


def _failure_of(future: Any) -> str:
    """Return the answer for a call that the cluster failed to make, for example because its workers died."""
    error = future.exception(timeout=PATIENCE)
    return failure(error_text(error), traceback_of(error))
