"""Agents that are programs: woken by a server or by a worker, with a way to the tools that really works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from mcp.shared.exceptions import MCPError

from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.engine.validation import NewSchedule
from duetime.settings.own_commands import RUN_TOKEN
from tests.support.agency import CALLING_AGENT, Agency
from tests.support.agents import over_stdio
from tests.support.cli import Output, start
from tests.support.mcp import connected, unique
from tests.support.woken import Records, opened, result_of, write_settings

LATER = "2031-02-10T15:00:00"


def test_a_program_reaches_the_server_that_woke_it(shared_agency: Agency) -> None:
    owner = unique("owner")
    with shared_agency.agent(owner) as client:
        task = client.knows("schedule", prompt="Look around.", at="now", agent="caller")["id"]
    run = shared_agency.ended(task)
    kept, token = result_of(run), shared_agency.run_token(run)
    seen = kept["outcome"]
    assert run.status == "completed" and seen["type"] == "http" and kept["exit_code"] == 0
    assert [(each["id"], each["status"]) for each in seen["listed"]["tasks"]] == [(task, "running")]
    assert seen["made"]["fire_at"] == f"{LATER}+01:00", "in the zone of whoever scheduled it"
    assert shared_agency.prompts(owner)["look again"].definition.depth == 1
    assert "\nLook around.\n" in seen["prompt"] and owner in seen["prompt"]
    assert "Bearer ***" in kept["text"] and token not in json.dumps(kept)
    assert not {"ANTHROPIC_API_KEY", "XDG_DATA_HOME"} & set(seen["variables"])
    assert not Path(seen["folder"]).exists(), "nothing of a run stays"


@contextmanager
def working(folder: Path) -> Iterator[None]:
    """A worker without a server, whose agent works in a folder where others have left traps."""
    trap = folder / "elsewhere"
    trap.mkdir()
    (trap / "duetime.toml").write_text("max_depth = 9\n")
    (trap / "typer.py").write_text("raise SystemExit('this is not typer')\n")
    write_settings(
        folder,
        'agent = "caller"\nmax_depth = 2\n[agents.caller]\n'
        f"command = {json.dumps(CALLING_AGENT)}\nfolder = {json.dumps(str(trap))}\n",
    )
    with start("worker", "--db", "my.db", folder=folder) as process:
        try:
            Output(process).until(lambda line: line.startswith("Duetime "))
            yield
        finally:
            process.kill()


def test_a_program_that_a_worker_woke_starts_its_own_server(tmp_path: Path) -> None:
    with working(tmp_path), opened(tmp_path) as app:
        there = Records(app)
        shallow, deep = (_made(there, depth) for depth in (1, 2))
        kept = {task.definition.depth: result_of(there.ended(task.definition.id)) for task in (shallow, deep)}
        made = there.prompts("ada")["look again"].definition
    assert {depth: each["outcome"]["type"] for depth, each in kept.items()} == {1: "stdio", 2: "stdio"}
    tasks = kept[1]["outcome"]["listed"]["tasks"]
    assert {each["prompt"] for each in tasks} >= {"Look at 1.", "Look at 2."}, "the owner's own"
    assert (made.owner, made.depth, made.subject) == ("ada", 2, "caller"), "by the settings of the worker"
    assert "may schedule at most 2 deep" in kept[2]["outcome"]["made"]["error"]
    assert "eyJ" not in json.dumps(kept), "no token is kept"


def _made(there: Records, depth: int) -> Schedule:
    new = NewSchedule("prompt", "look", "once", {"run_at": "now"}, {"prompt": f"Look at {depth}."}, timezone="UTC")
    made = there.app.scheduler.create(Caller("ada", depth=depth), new)
    return made


def test_a_server_for_a_run_that_is_over_does_nothing(shared_agency: Agency) -> None:
    owner, folder = unique("owner"), shared_agency.world.served.folder
    with shared_agency.agent(owner) as client:
        run = shared_agency.ended(client.knows("schedule", prompt="drink water", at="now", remind=True)["id"])
    late = over_stdio(folder, "2026-07-28", **{RUN_TOKEN: shared_agency.run_token(run)})
    over = "Nothing was done: the run that this token was for is over"
    with start_blocking_portal() as portal, connected(portal, late) as agent, pytest.raises(MCPError, match=over):
        agent.call("schedule_list")
