"""The heartbeat of a real server: it takes what waits in the inbox, gives it back where it fails, and ends in time."""

from __future__ import annotations

import threading
from pathlib import Path

from duetime.core.delivering import ALERTS
from duetime.core.kind import Caller
from duetime.core.model import Run, Schedule
from tests.support.model_server import ModelServer, Request, Step, call, fail, say
from tests.support.woken import PATIENCE, House, house, opened, prompts_in, result_of, write_settings
from tests.support.workers import eventually

LOCAL = Caller("local")
LIMIT = "3 runs a day for the agent heartbeat"
SETTINGS = '[heartbeat]\nevery = "1s"\nruns_per_day = 3\n'
PLANTS, CAT = "Water the plants.", "Feed the cat."


class Model:
    """Does the first prompt, and schedules a second one meanwhile; from then on it has no room."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def __call__(self, request: Request) -> Step:
        if PLANTS not in prompts_in(request):
            return fail(529, "no room", {"x-should-retry": "false"})
        return say(lambda _: self._end()) if request.turns else call("schedule", prompt=CAT, at="now")

    def _end(self) -> str:
        assert self.may_end.wait(PATIENCE)
        return "The plants are wet."


def paused_beat(folder: Path) -> Schedule:
    """Made before the server starts, so that the test says when it begins."""
    write_settings(folder, SETTINGS)
    with opened(folder) as app:
        app.keep_heartbeat()
        [beat] = app.scheduler.coming(LOCAL, None, 10)
        app.scheduler.pause(LOCAL, beat.definition.public_id)
    return beat


def test_a_heartbeat_from_its_first_beat_to_its_limit(tmp_path: Path) -> None:
    beat, model = paused_beat(tmp_path), Model()
    (tmp_path / "HEARTBEAT.md").write_text("Look after the house.")
    with ModelServer(model) as server, house(tmp_path, SETTINGS, env=server.environment) as there:
        with there.agent(token=there.world.served.token) as client:
            made = client.call("schedule", prompt=PLANTS, at="now")
            assert "waits in the inbox until the heartbeat, or another agent, takes it" in made.text
            there.run_of(made.data["id"], "waiting")
            there.app.scheduler.resume(LOCAL, beat.definition.public_id)
            eventually(lambda: CAT in there.prompts("local"), PATIENCE, "the beat schedules something")
            cat = there.prompts("local")[CAT]
            there.run_of(cat.definition.id, "waiting")
            model.may_end.set()
            plants = there.ended(made.data["id"])
            assert plants.status == "completed"
            assert result_of(plants) == {"text": "The plants are wet.", "agent": "heartbeat"}
            assert cat.definition.depth == 1
            woken_with = server.requests[0].said[0]
            assert "Look after the house." in woken_with and f"\n{PLANTS}\n" in woken_with

            held_back(there, beat)
            [row] = [task for task in client.knows("schedule_list", status="running")["tasks"] if "held" in task]
            assert row["id"] == beat.definition.id and LIMIT in row["held"] and "until tomorrow" in row["held"]
            [alert] = there.arrived("local", ALERTS)
            assert LIMIT in alert["message"]
            given_back = there.run_of(cat.definition.id, "waiting")
            assert given_back.holder is None and given_back.attempt == 0
            taken = client.knows("take_prompt")
            assert taken["prompt"] == CAT
            client.knows("finish_prompt", run_id=taken["run_id"], result="Fed.")
        there.arrived("local", ALERTS)


def held_back(there: House, beat: Schedule) -> None:
    """Three beats, then one that waits; those that would come after it are skipped, in one row that says so."""

    def runs() -> list[Run]:
        return there.runs(schedule=beat.definition.id)

    eventually(lambda: [run.status for run in runs()][-2:] == ["pending", "skipped"], PATIENCE, "the beat is held back")
    assert [run.status for run in runs() if run.status != "skipped"] == ["completed", "failed", "failed", "pending"]
    waiting, skipped = runs()[-2:]
    assert waiting.error == f"the limit of {LIMIT} is reached"
    assert skipped.error == "an earlier run was still active"
