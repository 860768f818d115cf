"""Runs tasks on Celery workers with Redis. They need the task of `celery_task`.

Redis can lose a message that a worker has taken but not yet marked as such, and delivers a long task again after its
visibility timeout. So every run needs a timeout, and the keys of all calls are in a hash beside the messages.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from duetime.kinds.jobs.executors import package
from duetime.kinds.jobs.remote import failure

TASK: Final = "duetime.call"
PATIENCE: Final = 5.0
_KNOWN: Final = "duetime:calls"
_META: Final = "celery-task-meta-"
_ENDED: Final = frozenset({"SUCCESS", "FAILURE", "REVOKED"})


class CeleryExecutor:
    needs_timeout = True

    def __init__(self, address: str) -> None:
        celery = package("celery", "celery")
        options = {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE}
        self._app = celery.Celery("duetime", broker=address, backend=address)
        self._app.conf.update(
            broker_transport_options=options,
            broker_connection_retry=False,
            task_publish_retry=False,
            result_backend_transport_options={"retry_policy": {"max_retries": 0}},
            result_serializer="json",
            task_serializer="json",
        )
        self._redis = package("redis", "celery").Redis.from_url(address, **options)
        self._redis.ping()

    def submit(self, calls: Mapping[str, str]) -> None:
        with self._app.connection_for_write() as connection, connection.default_channel.Producer() as producer:
            for key, text in calls.items():
                if self._redis.hsetnx(_KNOWN, key, ""):
                    try:
                        self._app.send_task(TASK, (text,), task_id=key, producer=producer, retry=False)
                    except Exception:
                        self._redis.hdel(_KNOWN, key)  # otherwise, it would count as sent until its timeout
                        raise

    def poll(self, keys: Collection[str]) -> Mapping[str, str | None]:
        ordered = list(keys)
        if not ordered:
            return {}
        known = self._redis.hmget(_KNOWN, ordered)
        results = self._redis.mget([f"{_META}{key}" for key in ordered])
        pairs = zip(ordered, known, results, strict=True)
        return {key: _answer(result) for key, mark, result in pairs if mark is not None}

    def keys(self, prefix: str) -> Collection[str]:
        return [key.decode() for key in self._redis.hkeys(_KNOWN) if key.startswith(prefix.encode())]

    def forget(self, keys: Collection[str]) -> None:
        running = [key for key, answer in self.poll(keys).items() if answer is None]
        if running:
            self._app.control.revoke(running, terminate=True)
        self._redis.delete(*(f"{_META}{key}" for key in keys))
        self._redis.hdel(_KNOWN, *keys)

    def workers(self) -> int | None:
        return len(self._app.control.ping(timeout=0.5))

    def close(self) -> None:
        self._redis.close()
        self._app.close()


def _answer(result: bytes | None) -> str | None:
    content: dict[str, Any] = {} if result is None else json.loads(result)
    if content.get("status") not in _ENDED:
        return None
    if content["status"] == "SUCCESS":
        return str(content["result"])
    reason = content.get("result") or {}
    words = " ".join(map(str, reason.get("exc_message", ()))) if isinstance(reason, dict) else str(reason)
    name = reason.get("exc_type", content["status"]) if isinstance(reason, dict) else content["status"]
    return failure(f"{name}: {words}", content.get("traceback"))
