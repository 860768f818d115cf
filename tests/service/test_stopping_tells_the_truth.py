"""Stopping runs that are in progress: every interface says that a run was asked to stop, not that it has stopped, until
it has ended; and who asked stays in the run's trace. A task in a thread that does not listen goes on to its end, one in
a process of its own is ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from duetime import Duetime
from duetime.engine.kind import LOCAL
from duetime.engine.model import RunId
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from tests.support import isolated
from tests.support.agent import Agent
from tests.support.browsing import browser_of, words
from tests.support.cli import Cli
from tests.support.web import Site, site
from tests.support.workers import eventually

INTERFACES = ("mcp", "http", "command line", "python", "dashboard")
PATIENCE = 30.0
ACTORS = {
    "mcp": '"by": "local (mcp)"',
    "http": '"by":"local (rest)"',
    "command line": "stop      requested by local (cli)",
    "python": '"by": "the module',
    "dashboard": "asked to stop by local (dashboard)",
}
"""Who asked, as each interface shows it."""


class Working(NamedTuple):
    """A site with a worker, on which a task that does not listen runs once for each interface, and one in a process."""

    there: Site
    duetime: Duetime
    threads: dict[str, int]
    """The runs of the task in a thread, by interface."""
    processes: dict[str, int]
    ids: dict[int, str]
    """The schedules of the runs."""
    gate: threading.Event
    """Lets the tasks in threads end."""


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Working]:
    folder, gate, began = tmp_path_factory.mktemp("working"), threading.Event(), threading.Semaphore(0)
    registry = Registry(base=isolated.registry)

    @registry.task
    def deaf() -> str:
        began.release()
        gate.wait(PATIENCE)
        return "done all the same"

    with site(folder) as there:
        settings = Settings(db=there.room.settings.db, timezone="UTC", lease=6.0, threads=20)
        with closing(Duetime(settings=settings, registry=registry)) as duetime:
            duetime.app.services.kind(JobKind)._limits["grace"] = 0.2
            duetime.start()
            threads = {name: duetime.schedule("deaf", delay="1s", name=f"deaf-{name}") for name in INTERFACES}
            processes = {
                name: duetime.schedule("hog", args=[str(folder / name)], delay="1s", name=f"hog-{name}")
                for name in INTERFACES
            }
            for _ in INTERFACES:
                assert began.acquire(timeout=PATIENCE)
            eventually(lambda: all((folder / name).exists() for name in INTERFACES), PATIENCE, "processes")
            runs = {each.schedule: each.run_id for each in duetime.history(status="running")}
            yield Working(
                there,
                duetime,
                {name: runs[each.id] for name, each in threads.items()},
                {name: runs[each.id] for name, each in processes.items()},
                {run: id for id, run in runs.items() if id is not None},
                gate,
            )
            gate.set()


def agent_on(there: Site) -> Agent:
    from duetime.service.services import local_call

    call = local_call(there.room.services, "mcp")
    return Agent(there.room.services, call.caller, "UTC")


def stop(working: Working, cli: Cli, interface: str, run: int) -> str:
    """Stop a run, and return what the interface says."""
    there = working.there
    match interface:
        case "mcp":
            answer = agent_on(there).knows("stop_run", run_id=run)
            assert (answer["stopped_count"], answer["requested_count"]) == (0, 1)
            assert answer["stopped"][0]["status"] == "running" and answer["stopped"][0]["stop_requested"]
            return str(answer["confirmation"])
        case "http":
            reply = there.ask("POST", f"/api/v1/runs/{run}/cancel", there.bearer(LOCAL))
            assert (reply.status, reply.json["status"], reply.json["stopping"]) == (202, "running", True)
            return " ".join(reply.json["notes"])
        case "command line":
            return cli("runs", "stop", str(run), "--db", there.room.settings.db).out
        case "python":
            with closing(Duetime(settings=Settings(db=there.room.settings.db, timezone="UTC"))) as duetime:
                stopping = duetime.cancel_run(run)
                assert (stopping.status, stopping.stopping) == ("running", True)
                return " ".join(stopping.notes)
        case _:
            browser, proof = browser_of(there)
            reply = browser.send(f"/runs/{run}/cancel", [("csrf", proof)])
            return words(browser.get(reply.headers["location"]))


def trace(working: Working, cli: Cli, interface: str, run: int) -> str:
    """Return what an interface shows of a run that has ended."""
    there = working.there
    match interface:
        case "mcp":
            return json.dumps(agent_on(there).knows("history", run_id=run)["runs"][0])
        case "http":
            return there.ask("GET", f"/api/v1/runs/{run}", there.bearer(LOCAL)).body.decode()
        case "command line":
            return cli("runs", "show", str(run), "--db", there.room.settings.db).out
        case "python":
            return json.dumps(working.duetime.run(run).as_dict(), default=str)
        case _:
            return words(browser_of(there)[0].get(f"/runs/{run}"))


def ended(working: Working, run: int) -> str:
    """Wait for the end of a run, and return its status."""

    def status() -> str | None:
        found = working.there.room.store.run(RunId(run))
        assert found is not None
        return None if found.status == "running" else found.status

    return eventually(status, PATIENCE, f"end of run {run}") or ""


def test_a_task_that_does_not_listen_was_asked_and_goes_on(working: Working, cli: Cli) -> None:
    said = {name: stop(working, cli, name, run) for name, run in working.threads.items()}
    for name, text in said.items():
        assert f"Run {working.threads[name]} of deaf-{name} was asked to stop." in text, name
        assert "It has not ended yet." in text and "(isolation process) is ended at once" in text, name
        assert "cancelled" not in text.partition("was asked to stop")[2].partition("It has not ended yet")[0], name
    working.gate.set()
    for name, run in working.threads.items():
        assert ended(working, run) == "completed", name
        shown = trace(working, cli, name, run)
        assert "completed" in shown and "done all the same" in shown, name
        request = working.there.room.store.stop_requests([RunId(run)]).get(RunId(run))
        assert request is not None and request.actor is not None
        assert ACTORS[name] in shown.lower(), (name, shown)
    rows = agent_on(working.there).knows("job_status", job_id="deaf-mcp")["history"]
    assert [(row["status"], row["stop_requested"]["by"]) for row in rows] == [("completed", "local (mcp)")]


def test_a_task_in_a_process_is_ended(working: Working, cli: Cli) -> None:
    for name, run in working.processes.items():
        assert "was asked to stop" in stop(working, cli, name, run)
    for name, run in working.processes.items():
        assert ended(working, run) == "cancelled", name


def test_a_run_is_stopped_once_it_has_run_too_long(working: Working, cli: Cli, tmp_path: Path) -> None:
    job = working.duetime.schedule("hog", args=[str(tmp_path / "told")], delay="1s", name="too long")
    eventually((tmp_path / "told").exists, PATIENCE, "process")
    [run] = working.duetime.history(job.id)
    told = agent_on(working.there).knows("stop_run", run_id=run.run_id, after="1s")
    assert f"Run {run.run_id} of too long is asked to stop at " in told["confirmation"]
    assert ended(working, run.run_id) == "cancelled"
