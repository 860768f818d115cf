"""Clients without a token, from many addresses: idle, slow, huge and malformed. Users must not notice them."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from scorecard.allowance import allowance
from scorecard.line import Result, Scale, Tell
from scorecard.serving import ROOT, Client, Server, percentile, serving

SLOWEST_MS = 500
MORE_MEMORY = 100 * 1024 * 1024
HELD, SMALL_HELD = 3.0, 0.7
"""Seconds that an idle or slow stranger stays, unless the server ends the connection."""


def measure(scale: Scale, tell: Tell) -> Result:
    count = scale.of(5000, 100)
    with serving("drain = 0.1\n") as server:
        user = User(server)
        user.warm_up()
        bound = SLOWEST_MS * allowance(scale, server)
        before = server.memory
        user.start()
        told = _strangers(server.port, count, SMALL_HELD if scale is Scale.SMALL else HELD, tell)
        user.stop()
        grown, alive = server.memory - before, server.alive
    return _judged(count, user, told, grown, bound, alive=alive)


def _strangers(port: int, count: int, held: float, tell: Tell) -> Mapping[str, int]:
    """Start the strangers in another process, and return their results."""
    command = [sys.executable, "-m", "scorecard.stranger_child", str(port), str(count), str(held)]
    said = "{}"
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for said in child.stdout:
            tell(f"{said.strip()} of {count:,} connections")
    if child.returncode:
        raise RuntimeError(f"the strangers ended with {child.returncode}")
    told: dict[str, int] = json.loads(said)
    return told


class User:
    """A client with a token, from another address, that asks all the time."""

    def __init__(self, server: Server) -> None:
        self._client: Client = server.client("alice")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.seconds: list[float] = []
        self.failures: list[str] = []

    def warm_up(self) -> None:
        for _ in range(5):
            self._client.got("/schedules?limit=10")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join(60)

    def _ask(self) -> None:
        for number in itertools.count():
            began = time.perf_counter()
            try:
                if number % 10 == 9:
                    self._client.close()  # new connections have to be accepted as well
                self._client.got("/schedules?limit=10")
                self.seconds.append(time.perf_counter() - began)
            except (OSError, RuntimeError) as error:
                self.failures.append(f"a user's request failed after {time.perf_counter() - began:.2f} s: {error!r}")
            if self._done.wait(0.05):
                return


def _judged(count: int, user: User, told: Mapping[str, int], grown: int, bound: float, *, alive: bool) -> Result:
    p99 = percentile(user.seconds, 0.99) * 1000
    failures = list(user.failures)
    if p99 > bound:
        failures.append(f"users waited {p99:.0f} ms (p99)")
    if grown > MORE_MEMORY:
        failures.append(f"the process grew by {grown / 1e6:.0f} MB")
    if not alive:
        failures.append("the process ended")
    measured = f"users: p99 {p99:.0f} ms of {len(user.seconds)} requests; memory {grown / 1e6:+.0f} MB; {dict(told)}"
    return Result({"connections": count}, measured, tuple(failures))
