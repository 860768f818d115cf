"""An experiment: a server, workers, schedules over HTTP, faults, and the history that comes of it, from the outside."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import apsw

from scorecard import chaos_worker
from scorecard.chaos_worker import WorkerOrder
from scorecard.history import LIVE, SECOND, SLOW, Definition, Execution, Fault, History, Row

ROOT = Path(__file__).parents[1]
DUETIME = (sys.executable, "-m", "duetime")
PAGE = 500
PATIENCE = 60.0
"""Seconds within which a request has to succeed, while the store may be away."""


class Unanswered(Exception):
    """A request got no answer, or one that leaves open whether it was carried out."""


class Refused(Exception):
    """A request was refused."""


def now() -> int:
    return time.time_ns() // 1000


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def wait_until(instant: int) -> None:
    wait(max(0.0, (instant - now()) / SECOND))


@dataclass
class Worker:
    """A worker process, and the wall clock that it believes in."""

    process: ForkServerProcess
    shift: Path

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def set_clock(self, seconds: float) -> None:
        """Overwrite the file in place: truncating it would kill a process that has it mapped into memory."""
        with self.shift.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", int(seconds * SECOND)))

    def signal(self, number: signal.Signals) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass  # it ended by itself, which is seen elsewhere

    def end(self) -> None:
        """Kill it, if it is still there."""
        if self.process.exitcode is None:
            self.signal(signal.SIGKILL)
            self.process.join()


@dataclass
class Experiment:
    """A store and its processes in one folder. Requests go to the server; faults are logged as they are caused."""

    url: str
    folder: Path
    lease: float = 2.0
    threads: int = 6
    server_threads: int = 1
    asks_twice: bool = False
    """Every create is sent twice under one key, which may make only one schedule."""
    definitions: dict[str, Definition] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    gave_up: list[str] = field(default_factory=list)

    # -- processes ---------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self, workers: int) -> Iterator[None]:
        self.effects.touch()
        self.port = _free_port()
        server = self._serve()
        try:
            self._await_server(server)
            self.workers = [self.start_worker() for _ in range(workers)]
            yield
        finally:
            for worker in self.workers:
                worker.end()
            server.kill()
            server.wait()

    @property
    def effects(self) -> Path:
        return self.folder / "effects"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(Path(place).resolve()) for place in sys.path),
            "PYTHONDONTWRITEBYTECODE": "",  # bytecode, as an installation has
            "SCORECARD_EFFECTS": str(self.effects),
            "DUETIME_MAX_SCHEDULES": "1000000",
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }

    def _serve(self) -> subprocess.Popen[bytes]:
        command = [*DUETIME, "serve", "--no-auth", "--port", str(self.port), "--db", self.url]
        command += ["--tasks", "scorecard.chaos_tasks", "--lease", str(self.lease)]
        command += ["--threads", str(self.server_threads)]
        with (self.folder / "server.log").open("wb") as log:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def _await_server(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and server.poll() is None:
            try:
                self.ask("GET", "/schedules")
                return
            except Unanswered:
                wait(0.05)
        raise RuntimeError(f"the server did not start: {(self.folder / 'server.log').read_text()[-2000:]}")

    def start_worker(self) -> Worker:
        number = len(list(self.folder.glob("clock-*")))
        shift = self.folder / f"clock-{number}"
        shift.write_bytes(struct.pack("q", 0))
        log = str(self.folder / "workers.log")
        order = WorkerOrder(self.url, str(self.effects), log, str(shift), self.lease, self.threads)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(chaos_worker.PRELOADED)
        process = context.Process(target=chaos_worker.main, args=(order,))
        process.start()
        return Worker(process, shift)

    # -- faults ------------------------------------------------------------------------------------------------------

    def kill(self, at: int) -> None:
        """Kill one worker and start another in its place."""
        worker, begin = self.workers[at], now()
        worker.end()
        self.faults.append(Fault("kill", worker.pid, begin, now()))
        self.workers[at] = self.start_worker()

    def stop(self, at: int, seconds: float) -> None:
        """Let one worker stand still and go on. One that holds SQLite's write lock keeps everybody from writing."""
        worker, begin = self.workers[at], now()
        worker.signal(signal.SIGSTOP)
        concerned = 0 if self.is_locked() else worker.pid
        wait(max(0.0, seconds - (now() - begin) / SECOND))
        worker.signal(signal.SIGCONT)
        self.faults.append(Fault("stop", concerned, begin, now()))

    def slow_down(self, apart: set[str]) -> None:
        """Let a worker stand still until the processes that it started for these schedules have ended by themselves,
        which they do before its lease is over."""
        under_way = Counter(_parent(process) for process in self._processes(apart))
        worker, begin = max(self.workers, key=lambda worker: under_way[worker.pid]), now()
        worker.signal(signal.SIGSTOP)
        while worker.pid in map(_parent, self._processes(apart)) and now() < begin + 20 * SECOND:
            wait(0.01)
        worker.signal(signal.SIGCONT)
        ended = [process for process in self._processes(apart) if _parent(process) is None]
        self.faults += [Fault(SLOW, process, begin, now()) for process in (worker.pid, *ended)]
        if not ended:
            self.gave_up.append("no run in a process of its own was under way")

    def _processes(self, schedules: set[str]) -> list[int]:
        """Return the processes of the executions that have logged no end."""
        return [one.process for one in read_effects(self.effects) if one.end is None and one.schedule in schedules]

    def is_locked(self) -> bool:
        """Return whether nobody can write to a SQLite store for longer than a transaction takes."""
        if "://" in self.url:
            return False
        connection = apsw.Connection(self.url)
        try:
            connection.set_busy_timeout(500)
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
            return False
        except apsw.BusyError:
            return True
        finally:
            connection.close()

    def busy_with(self, schedules: Collection[str]) -> int:
        """Return which worker has most runs of these schedules under way."""
        under_way = [one for one in read_effects(self.effects) if one.end is None and one.schedule in schedules]
        held = Counter(one.process for one in under_way)
        return max(range(len(self.workers)), key=lambda at: held[self.workers[at].pid])

    def replace_those_that_gave_up(self) -> None:
        for at, worker in enumerate(self.workers):
            if worker.process.exitcode is not None:
                self.gave_up.append(f"worker {worker.pid} ended by itself with {worker.process.exitcode}")
                self.faults.append(Fault("gave up", worker.pid, now() - 5 * SECOND, now()))
                self.workers[at] = self.start_worker()

    # -- requests ----------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the answer; raise Unanswered where there is none, or none that is certain."""
        target = f"/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            text = reply.read()
        except OSError as error:
            raise Unanswered(str(error)) from error
        finally:
            connection.close()
        if reply.status >= 500 or reply.status == 429:
            raise Unanswered(f"{reply.status} {text[:200]!r}")
        if reply.status >= 400:
            raise Refused(f"{method} {path}: {reply.status} {text[:500]!r}")
        return json.loads(text) if text else None

    def insist(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Ask until there is an answer. What is asked for may be asked for twice."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ask(method, path, body, **query)
            except Unanswered:
                if time.monotonic() > deadline:
                    raise
                wait(0.2)

    def create(
        self,
        key: str,
        first: int,
        period: int = 0,
        last: int | None = None,
        work: float = 0.0,
        task: str = "effect",
        **policy: Any,
    ) -> str:
        """Make a schedule and remember how it has to behave. Durations are microseconds, except `work`."""
        last = first if last is None else last
        fails = policy.pop("fails", 0)
        trigger: dict[str, Any] = {"type": "once", "run_at": _text(first)}
        if period:
            trigger = {"type": "interval", "seconds": period / SECOND, "start": _text(first), "end": _text(last)}
        sent = {name: value for name, value in policy.items() if name != "backoff"} | {"pause_after": 0}
        if "backoff" in policy:
            sent["backoff_seconds"] = policy["backoff"] / SECOND
        body = {
            "kind": "job",
            "name": key,
            "trigger": trigger,
            "payload": {"task": task, "kwargs": {"work": work, "fails": fails}},
            "policy": sent,
            "idempotency_key": key,
        }
        made: str = self.insist("POST", "/schedules", body)["id"]
        if self.asks_twice and (again := self.insist("POST", "/schedules", body)["id"]) != made:
            self.gave_up.append(f"the key {key} made both {made} and {again}")
        self.definitions[made] = Definition(made, first, period, last, now(), fails=fails, **policy)
        return made

    def pause(self, id: str, seconds: float) -> None:
        self.insist("POST", f"/schedules/{id}/pause")
        begin = now()
        wait(seconds)
        end = now()
        self.insist("POST", f"/schedules/{id}/resume")
        known = self.definitions[id]
        self.definitions[id] = replace(known, paused=(*known.paused, (begin, end)))

    def edit(self, id: str) -> None:
        """Give it another rule that begins in a month, and then, at once, the rule that it had."""
        known = self.definitions[id]
        later = {"type": "interval", "hours": 2, "end": None}
        self.insist("PATCH", f"/schedules/{id}", {"trigger": later, "starting": _text(now() + 30 * 86_400 * SECOND)})
        same = {"type": "interval", "seconds": known.period / SECOND, "between": "00:00-24:00", "timezone": "UTC"}
        self.insist("PATCH", f"/schedules/{id}", {"trigger": {**same, "end": _text(known.last)}})
        self.definitions[id] = replace(known, edited=True)

    def cancel(self, id: str) -> None:
        asked = now()
        self.insist("POST", f"/schedules/{id}/cancel")
        self.definitions[id] = replace(self.definitions[id], cancelled=(asked, now()))

    def compare_export(self) -> None:
        """Look for every schedule that was acknowledged and may still fire in what `duetime export` writes."""
        known = list(self.definitions.values())
        command = [*DUETIME, "export", "--db", self.url]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return  # the store was away just then
        exported = {json.loads(line)["id"] for line in done.stdout.splitlines()}
        until = now()
        missing = [one.id for one in known if one.last > until and one.id not in exported]
        cancelled = {one.id for one in self.definitions.values() if one.cancelled is not None}
        self.gave_up += [f"{id} was acknowledged and is not in the export" for id in missing if id not in cancelled]

    # -- the end -----------------------------------------------------------------------------------------------------

    def settle(self, seconds: float) -> bool:
        """Wait until everything that was due has ended; what was paused by itself goes on first."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for paused in self.insist("GET", "/schedules", status="paused")["schedules"]:
                self.insist("POST", f"/schedules/{paused['id']}/resume")
            over = all(known.last < now() - SECOND for known in self.definitions.values())
            if over and self._nothing_ahead():
                return True
            wait(0.25)
        return False

    def _nothing_ahead(self) -> bool:
        """Return whether no schedule is active and no run of the others may still change."""
        schedules = any(self._is_any("/schedules", status) for status in ("pending", "running", "paused"))
        return not schedules and not any(self._is_any("/runs", status) for status in sorted(LIVE))

    def _is_any(self, path: str, status: str) -> bool:
        return bool(self.insist("GET", path, status=status, limit=1)[path.removeprefix("/")])

    def history(self) -> History:
        until = now()
        self.note_broken()
        rows = [_row(run) for run in self._pages("/runs", "runs")]
        return History(tuple(self.definitions.values()), rows, read_effects(self.effects), tuple(self.faults), until)

    def note_broken(self) -> None:
        """Record broken schedules as failures: nothing here should break one, and it has no rows afterwards."""
        broken = self.insist("GET", "/schedules", status="broken")["schedules"]
        self.gave_up += [f"{one['id']} is broken: {one['note']}" for one in broken]

    def _pages(self, path: str, name: str) -> Iterator[dict[str, Any]]:
        cursor: dict[str, Any] = {}
        while True:
            page = self.insist("GET", path, limit=PAGE, timezone="UTC", **cursor)
            yield from page[name]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}


def read_effects(path: Path) -> list[Execution]:
    """Put the lines of each call together: it begins, and it may say how it ended."""
    begun: dict[tuple[int, int, int], list[Execution]] = {}
    done: list[Execution] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        verb, schedule, due, run, attempt, process, at = json.loads(line)
        mine = begun.setdefault((run, attempt, process), [])
        if verb == "begin":
            mine.append(Execution(run, schedule, due, attempt, process, at, None, "unknown"))
        else:
            done.append(mine.pop()._replace(end=at, how=verb))
    return done + [one for calls in begun.values() for one in calls]


def _row(run: dict[str, Any]) -> Row:
    return Row(
        run["run_id"],
        run["schedule"],
        run["cause"],
        _instant(run["due"]) or 0,
        run["status"],
        run["attempt"],
        _instant(run["finished"]),
        _instant(run.get("last")),
        -run["occurrences"] if run.get("at_least") else run.get("occurrences") or 1,
    )


def _instant(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * SECOND)


def _text(instant: int) -> str:
    return datetime.fromtimestamp(instant / SECOND, UTC).isoformat()


def _parent(process: int) -> int | None:
    """Return the parent of a process that is still there."""
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
