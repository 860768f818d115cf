"""`python -m bench.mcp`: what `duetime mcp` costs beside a bare server of the same SDK, measured in one run.

Requests are written and read as lines, so that no client's own work stands in the figures; both servers are asked in
turn, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.lines import Goal, Line
from bench.processes import say
from bench.sides import Bench, Side

ROOT = Path(__file__).parents[1]
CALL_BOUND = 1.5
"""Maximum cost of `job_status`, as a multiple of a trivial tool."""
START_BOUND = 1.3
"""Maximum duration of the first `tools/list`, as a multiple of the bare server's."""
ERAS = ("2025-11-25", "2026-07-28")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Server:
    """A server in its own process, which reads and writes lines."""

    def __init__(self, command: Sequence[str], folder: Path, era: str) -> None:
        self._era = era
        self._number = 0
        without = ("DUETIME_", "PYTHONDONTWRITEBYTECODE")  # a start without compiled modules would measure the compiler
        own = {name: value for name, value in os.environ.items() if not name.startswith(without)}
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        self._process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=own | {"PYTHONPATH": path, "XDG_DATA_HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if era == "2025-11-25":
            hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
            self.ask("initialize", hello)
            self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> bytes:
        """Return the line that answers; the server sends nothing but answers here."""
        assert self._process.stdout is not None
        self._number += 1
        given = {**(params or {}), **({"_meta": META} if self._era == "2026-07-28" else {})}
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": given})
        line = self._process.stdout.readline()
        if b'"result":' not in line[:100]:
            raise RuntimeError(f"{method}: {line[:300]!r}")
        return line

    def call(self, tool: str, **arguments: Any) -> bytes:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def processor_seconds(self) -> float:
        """Return the processor time that the server has used so far. Only on Linux."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()


BARE = ("-m", "bench.bare")
OURS = ("-m", "duetime", "mcp", "--db", "my.db")


@contextmanager
def _running(command: Sequence[str], folder: Path, era: str) -> Iterator[Server]:
    server = Server(command, folder, era)
    try:
        yield server
    finally:
        server.stop()


class Pair(NamedTuple):
    """Median durations for both servers, in seconds."""

    bare: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


def measure_calls(folder: Path, era: str, count: int) -> Pair:
    """Measure the status of a job that exists and has run, as an agent would ask for it."""
    with _running(BARE, folder, era) as bare, _running(OURS, folder, era) as ours:
        job_id = _job_that_ran(ours)
        asks: tuple[Callable[[], bytes], ...] = (
            lambda: bare.call("trivial", job_id=job_id),
            lambda: ours.call("job_status", job_id=job_id),
        )
        for ask in asks * 20:
            ask()
        times = [[_timed(ask) for ask in asks] for _ in range(count)]
    return Pair(*(median(column) for column in zip(*times, strict=True)))


def _job_that_ran(ours: Server) -> str:
    once = {"trigger_type": "once", "trigger_config": {"run_at": "now"}}
    made = json.loads(ours.call("schedule_job", name="bench", task="echo", **once))
    job_id = str(made["result"]["structuredContent"]["job_id"])
    deadline = time.monotonic() + 20
    while json.loads(ours.call("job_status", job_id=job_id))["result"]["structuredContent"]["status"] != "completed":
        if time.monotonic() > deadline:
            raise RuntimeError("the job did not run")
    return job_id


def _timed(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def measure_starts(folder: Path, era: str, count: int) -> Pair:
    """Measure from process start to the answer. Both were started before, so that the cache of the disk is filled."""
    times = [[_started(command, folder, era) for command in (BARE, OURS)] for _ in range(count)]
    return Pair(*(median(column) for column in zip(*times, strict=True)))


def _started(command: Sequence[str], folder: Path, era: str) -> float:
    began = time.perf_counter()
    with _running(command, folder, era) as server:
        server.ask("tools/list")
        return time.perf_counter() - began


def measure_starts_on_the_processor(folder: Path, era: str, count: int) -> Pair:
    """Return the least processor time until the first answer, which other work on the machine hardly changes."""
    times = [[_started_on_the_processor(command, folder, era) for command in (BARE, OURS)] for _ in range(count)]
    return Pair(*(min(column) for column in zip(*times, strict=True)))


def _started_on_the_processor(command: Sequence[str], folder: Path, era: str) -> float:
    with _running(command, folder, era) as server:
        server.ask("tools/list")
        return server.processor_seconds()


def mcp(bench: Bench, store: str) -> Iterator[Line]:
    """`job_status` and the first `tools/list` over stdio, beside a bare server of the SDK, in the newest era."""
    if store:
        return
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        for what, measure, count, goal in (
            ("job_status over stdio", measure_calls, bench.sizes.calls, Goal(1.3, 1.15, higher=False)),
            ("first tools/list over stdio", measure_starts, bench.sizes.starts, Goal(1.2, 1.1, higher=False)),
        ):
            sides = [Side("Duetime", dict), Side("bare SDK server", dict)]
            for number in range(bench.rounds):
                say(f"{what}, round {number + 1} of {bench.rounds}")
                pair = measure(Path(folder), ERAS[-1], count)
                sides[0].results.append({"ms": pair.ours * 1000})
                sides[1].results.append({"ms": pair.bare * 1000})
            yield Line(what, "", "ms", sides[0].figure("ms"), sides[1].figure("ms"), goal)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-mcp ARGS=...", description=__doc__)
    parser.add_argument("--calls", type=int, default=500, help="calls of each tool")
    parser.add_argument("--starts", type=int, default=9, help="starts of each server")
    parser.add_argument("--eras", default=",".join(ERAS), help="protocol eras")
    options = parser.parse_args()
    held = True
    for era in options.eras.split(","):
        with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
            print(f"\n== {era}, medians")
            calls = measure_calls(Path(folder), era, options.calls)
            held &= _shown("job_status beside a trivial tool", calls, CALL_BOUND)
            starts = measure_starts(Path(folder), era, options.starts)
            held &= _shown("first tools/list from the start of the process", starts, START_BOUND)
    return 0 if held else 1


def _shown(what: str, pair: Pair, bound: float) -> bool:
    held = pair.ratio <= bound
    verdict = "held" if held else "BROKEN"
    print(f"{what}: {pair.ours * 1000:.2f} ms, bare {pair.bare * 1000:.2f} ms: {pair.ratio:.2f}x, ", end="")
    print(f"bound {bound}x: {verdict}")
    return held


if __name__ == "__main__":
    sys.exit(main())
