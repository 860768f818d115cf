"""An owner with a token who sends each expensive body again and again on 8 connections: the liveness check and another
owner's requests are answered in time, the other owner's runs start in time, and memory does not grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scorecard.allowance import allowance
from scorecard.hostile_bodies import HostileBody, hostile_bodies
from scorecard.line import Result, Scale, Tell
from scorecard.neighbour import Neighbour
from scorecard.serving import ROOT, Client, Server, percentile, serving

CONNECTIONS = 8
SLOWEST = 0.2
"""Seconds in which 99 of 100 probes are answered, for each body."""
LATEST = 1.0
"""Seconds that a run of the other owner may be late."""
MORE_MEMORY = 100 * 1024 * 1024
BETWEEN = 0.02
"""Seconds between two probes."""
SETTINGS = "max_runs_per_hour = 0\ndrain = 0.1\n"


def measure(scale: Scale, tell: Tell) -> Result:
    seconds = scale.of(200, 3) / 10
    bodies = list(hostile_bodies())
    with serving(SETTINGS) as server:
        mallory, neighbour = server.client("mallory"), Neighbour(server)
        cookie = server.browser(mallory).headers["Cookie"]
        neighbour.begin()
        bound = SLOWEST * allowance(scale, server)
        _send(server, HostileBody("", "/api/v1/preview", {}, b"{}"), mallory.headers["Authorization"], cookie, 0.2)
        before = server.memory
        failures: list[str] = []
        slowest, costliest, most = 0.0, 0.0, before
        for number, body in enumerate(bodies):
            tell(f"{number} of {len(bodies)} bodies")
            used = _processor_seconds(server)
            with probing(server) as probes:
                answered = _send(server, body, mallory.headers["Authorization"], cookie, seconds)
                most = max(most, server.memory)
            cost = (_processor_seconds(server) - used) / max(1, answered.total())
            p99 = percentile([*probes.seconds], 0.99)
            slowest, costliest = max(slowest, p99), max(costliest, cost)
            tell(f"{body.about}: p99 {p99 * 1000:.0f} ms, {cost * 1000:.1f} ms each, {dict(answered)}")
            failures += probes.failures
            if p99 > bound:
                failures.append(f"{body.about}: others waited {p99 * 1000:.0f} ms (p99)")
            if any(status.startswith("5") for status in answered) or not answered:
                failures.append(f"{body.about}: {dict(answered)}")
        neighbour.end()
        seen, alive = neighbour.seen(), server.alive
    grown = most - before
    late = LATEST if scale is not Scale.SMALL else LATEST * bound / SLOWEST
    failures += [f"the other owner: {told}" for told in (seen.broken if scale is Scale.SMALL else seen.not_run)]
    failures += [f"a run of the other owner was {seen.worst:.2f} s late"] if seen.worst > late else []
    failures += [f"memory grew by {grown / 1e6:.0f} MB"] if grown > MORE_MEMORY else []
    failures += [] if alive else ["the process ended"]
    measured = (
        f"others: p99 {slowest * 1000:.0f} ms at the worst body, runs at most {seen.worst:.2f} s late"
        f" ({seen.ran} runs); memory {grown / 1e6:+.0f} MB; at most {costliest * 1000:.0f} ms of the processor each"
    )
    return Result({"bodies": len(bodies), "connections": CONNECTIONS}, measured, tuple(failures))


class Probes:
    """Another owner who asks all the time, and the liveness check."""

    def __init__(self, server: Server) -> None:
        self._health, self._alice = server.stranger(), server.client("alice")
        self.seconds: list[float] = []
        self.failures: list[str] = []

    def ask(self, done: threading.Event) -> None:
        while not done.wait(BETWEEN):
            for client, path in ((self._health, "/healthz"), (self._alice, "/api/v1/whoami")):
                self._ask(client, path)

    def _ask(self, client: Client, path: str) -> None:
        try:
            reply = client.ask("GET", path)
        except OSError as error:
            client.close()
            self.failures.append(f"{path}: {error!r}")
            return
        self.seconds.append(reply.seconds)
        if reply.status != 200:
            self.failures.append(f"{path} answered {reply.status}")


@contextmanager
def probing(server: Server) -> Iterator[Probes]:
    probes, done = Probes(server), threading.Event()
    thread = threading.Thread(target=probes.ask, args=(done,), daemon=True)
    thread.start()
    try:
        yield probes
    finally:
        done.set()
        thread.join(60)


def request_of(body: HostileBody, port: int, token: str, cookie: str) -> bytes:
    """Return the whole request as bytes."""
    origin = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{port}"}
    own = origin if body.is_page else {"Authorization": token}
    headers = {"Host": f"127.0.0.1:{port}", **body.headers, **own, "Content-Length": str(len(body.body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {body.path} HTTP/1.1\r\n{head}\r\n".encode() + body.body


def _send(server: Server, body: HostileBody, token: str, cookie: str, seconds: float) -> Counter[str]:
    command = [sys.executable, "-m", "scorecard.body_child", str(server.port), str(CONNECTIONS), str(seconds)]
    request = request_of(body, server.port, token, cookie)
    done = subprocess.run(command, cwd=ROOT, input=request, capture_output=True, timeout=seconds + 120, check=True)
    return Counter(json.loads(done.stdout))


def _processor_seconds(server: Server) -> float:
    """Return the processor time that the server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
