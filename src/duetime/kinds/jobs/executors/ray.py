"""Runs tasks on a Ray cluster. Ray ends calls together with the program that made them, so they belong to an actor on
the head node. It also ends programs whose cluster is away for a minute, so the connection is a process of its own."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Collection, Mapping
from functools import partialmethod
from socket import create_connection
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, Final
from urllib.parse import urlsplit

from duetime.engine.encoding import error_text
from duetime.kinds.jobs.executors import package
from duetime.kinds.jobs.remote import call, failure

PATIENCE: Final = 20.0
PATIENCE_AT_FIRST: Final = 60.0
"""Seconds that the cluster has to answer, also at first, while it starts: Ray itself would try for minutes."""
_ACTOR: Final = {"name": "duetime-calls", "get_if_exists": True, "lifetime": "detached", "num_cpus": 0}
"""An actor goes on with the code that it was started with: a change of `RayCalls` needs another name."""
_PROGRAM: Final = f"from {__name__} import answer_questions; answer_questions()"


class RayCalls:
    """The calls and their answers, in an actor."""

    def __init__(self) -> None:
        self._ray = package("ray", "ray")
        self._call = self._ray.remote(max_retries=3)(call)
        self._calls: dict[str, Any] = {}

    def submit(self, calls: Mapping[str, str]) -> None:
        self._calls |= {key: self._call.remote(text) for key, text in calls.items() if key not in self._calls}

    def poll(self, keys: Collection[str]) -> Mapping[str, str | None]:
        known = {key: self._calls[key] for key in keys if key in self._calls}
        ended = set(self._ray.wait([*known.values()], num_returns=len(known), timeout=0)[0]) if known else ()
        return {key: self._answer(each) if each in ended else None for key, each in known.items()}

    def keys(self, prefix: str) -> Collection[str]:
        return [key for key in self._calls if key.startswith(prefix)]

    def forget(self, keys: Collection[str]) -> None:
        for key in self._calls.keys() & keys:
            self._ray.cancel(self._calls.pop(key), force=True)

    def workers(self) -> int:
        return sum(bool(node["Alive"] and node["Resources"].get("CPU")) for node in self._ray.nodes())

    def _answer(self, ended: Any) -> str:
        try:
            return str(self._ray.get(ended))
        except Exception as error:  # for example because its worker died again and again
            return failure(error_text(getattr(error, "cause", error)))


def answer_questions() -> None:
    """Connect to the actor and pass questions on to it, each a line of JSON; end if one takes too long."""
    answers, actor = os.fdopen(os.dup(1), "w"), None
    os.dup2(2, 1)  # whatever Ray prints is no answer
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"  # Ray would send this folder to the cluster
    for line in sys.stdin:
        faulthandler.dump_traceback_later(PATIENCE_AT_FIRST if actor is None else PATIENCE, exit=True)
        try:
            ray = package("ray", "ray")
            if actor is None:
                ray.init(sys.argv[1], namespace="duetime", log_to_driver=False)
                actor = ray.remote(RayCalls).options(**_ACTOR, resources={"node:__internal_head__": 0.001}).remote()
            method, *values = json.loads(line)
            answer = {"answer": ray.get(getattr(actor, method).remote(*values))}
        except Exception as error:
            answer = {"problem": error_text(error)}
        answers.write(f"{json.dumps(answer)}\n")
        answers.flush()
        faulthandler.cancel_dump_traceback_later()
    faulthandler.dump_traceback_later(PATIENCE, exit=True)  # Ray disconnects when the process ends


class RayExecutor:
    needs_timeout = False

    def __init__(self, address: str) -> None:
        place = urlsplit(address if "://" in address else f"//{address}")
        if place.port is None:
            raise ValueError("its address needs a port: ray://host:10001, or host:6379 on a machine of the cluster")
        create_connection((place.hostname, place.port), timeout=5.0).close()
        command = [sys.executable, "-P", "-c", _PROGRAM, address]
        self._process: Any = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True)

    def _ask(self, *question: Any) -> Any:
        self._process.stdin.write(f"{json.dumps(question)}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"problem": "it does not answer, or has hung up"}')
        if "problem" in answer:
            raise ConnectionError(answer["problem"])
        return answer["answer"]

    submit = partialmethod(_ask, "submit")
    poll = partialmethod(_ask, "poll")
    keys = partialmethod(_ask, "keys")
    forget = partialmethod(_ask, "forget")
    workers = partialmethod(_ask, "workers")

    def close(self) -> None:
        with self._process:
            self._process.kill()
