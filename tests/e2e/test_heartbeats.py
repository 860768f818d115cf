"""The heartbeat of a real server: it takes what waits in the inbox, gives it back where it fails, and ends in time."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from duetime.engine.clock import SECOND
from duetime.engine.kind import Caller
from duetime.engine.model import Run, Schedule
from duetime.engine.policy.checkout import LEFT
from duetime.engine.policy.options import ALERTS
from duetime.service.operations.upcoming import coming
from tests.support.model_server import ModelServer, Request, Step, call, fail, say
from tests.support.receiver import Behaviour, Receiver
from tests.support.settings import remote_agent
from tests.support.woken import PATIENCE, Installation, installation, opened, prompts_in, result_of, write_settings
from tests.support.workers import eventually

LOCAL = Caller("local", operator=True)
LIMIT = "3 runs a day for the agent heartbeat"
SETTINGS = '[heartbeat]\nevery = "1s"\nruns_per_day = 3\n'
PLANTS, CAT = "Water the plants.", "Feed the cat."


class Model:
    """Does the first prompt, and schedules a second one meanwhile; it then has no room twice, and after that again."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self._failures = 0

    def __call__(self, request: Request) -> Step:
        if PLANTS not in prompts_in(request):
            self._failures += 1
            return fail(529, "no room", {"x-should-retry": "false"}) if self._failures <= 2 else say("All is well.")
        return say(lambda _: self._end()) if request.turns else call("schedule", prompt=CAT, at="now")

    def _end(self) -> str:
        assert self.may_end.wait(PATIENCE)
        return "The plants are wet."


def paused_beat(folder: Path) -> Schedule:
    """Made before the server starts, so that the test says when it begins."""
    write_settings(folder, SETTINGS)
    with opened(folder) as app:
        app.keep_heartbeat()
        [beat] = coming(app.call._replace(caller=LOCAL), 10)
        app.scheduler.pause(LOCAL, beat.definition.public_id)
    return beat


def test_a_heartbeat_from_its_first_beat_to_its_limit(tmp_path: Path) -> None:
    beat, model = paused_beat(tmp_path), Model()
    (tmp_path / "HEARTBEAT.md").write_text("Look after the house.")
    with ModelServer(model) as server, installation(tmp_path, SETTINGS, env=server.environment) as there:
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
            kept = result_of(plants)
            assert (kept["text"], kept["agent"]) == ("The plants are wet.", "heartbeat")
            assert [each["name"] for each in kept["tool_calls"]] == ["schedule"] and kept["usage"]["input_tokens"]
            assert cat.definition.depth == 1
            woken_with = server.requests[0].said[0]
            assert "Look after the house." in woken_with and f"\n{PLANTS}\n" in woken_with

            held_back(there, beat)
            [row] = [task for task in client.knows("schedule_list", status="running")["tasks"] if "held" in task]
            assert row["id"] == beat.definition.id and LIMIT in row["held"] and "until tomorrow" in row["held"]
            there.arrived("local", ALERTS, words=LIMIT)  # the beats that failed may be told, too
            fed = there.ended(cat.definition.id)
            assert fed.status == "completed" and fed.attempt == 1, "the beats that failed gave it back uncounted"
        there.arrived("local", ALERTS, words=LIMIT)


def held_back(there: Installation, beat: Schedule) -> None:
    """Three beats besides those that failed, then one that waits; those that would come after it are skipped, in one
    row that says so."""

    def runs() -> list[Run]:
        return there.runs(schedule=beat.definition.id)

    eventually(lambda: [run.status for run in runs()][-2:] == ["pending", "skipped"], PATIENCE, "the beat is held back")
    assert [run.status for run in runs() if run.status != "skipped"] == [
        *("completed", "failed", "failed"),
        *("completed", "completed", "pending"),
    ]
    waiting, skipped = runs()[-2:]
    assert waiting.error == f"the limit of {LIMIT} is reached"
    assert skipped.error == "an earlier run was still active"


@pytest.mark.parametrize("others", [True, False])
def test_a_server_without_a_heartbeat_leaves_it_to_those_who_have_it(tmp_path: Path, others: bool) -> None:
    write_settings(tmp_path, '[heartbeat]\nevery = "1h"\n')
    with opened(tmp_path) as app:
        app.keep_heartbeat()
        if others:
            app.store.register("another", ["prompt"], session=False, now=app.clock.now(), lease=60 * SECOND)
    with installation(tmp_path, "") as there:
        eventually(lambda: there.app.store.workers()[int(others) :], PATIENCE, "it works")
        [beat] = there.prompts("local").values()
        assert beat.progress.state == ("active" if others else "cancelled")


def test_each_of_several_prompts_is_finished_for_itself(tmp_path: Path) -> None:
    """In the first beat the agent finishes one by its tool; in those after it, it only talks."""
    third = "Close the windows."

    def model(request: Request) -> Step:
        due = prompts_in(request)
        if len(due) == 3 and not request.turns:
            run_id = int(re.findall(r"run_id (\d+),", request.said[0])[due.index(CAT)])
            return call("finish_prompt", run_id=run_id, result="The cat is fed.")
        return say(f"Said of {len(due)}.")

    beat = paused_beat(tmp_path)
    (tmp_path / "HEARTBEAT.md").write_text("Look after the house.")
    with (
        ModelServer(model) as server,
        installation(tmp_path, '[heartbeat]\nevery = "1s"\n', env=server.environment) as there,
        there.agent(token=there.world.served.token) as client,
    ):
        tasks = [client.knows("schedule", prompt=text, at="now")["id"] for text in (PLANTS, CAT, third)]
        for task in tasks:
            there.run_of(task, "waiting")
        there.app.scheduler.resume(LOCAL, beat.definition.public_id)
        plants, cat, windows = (there.ended(task) for task in tasks)
    assert cat.result == '"The cat is fed."'
    assert [result_of(run)["text"] for run in (plants, windows)] == ["Said of 1.", "Said of 1."]
    counts = [len(prompts_in(request)) for request in server.requests if not request.turns]
    assert counts[:4] == [3, 2, 1, 1], "nobody says of two prompts at once that both are done"


def test_an_agent_that_answers_later_finishes_what_its_beat_took(tmp_path: Path) -> None:
    beat = paused_beat(tmp_path)
    (tmp_path / "HEARTBEAT.md").write_text("Look after the house.")
    with Receiver(lambda _: Behaviour(202)) as hook:
        remote = remote_agent(hook.url, "a-long-enough-secret")
        with (
            installation(tmp_path, f'{remote}[heartbeat]\nevery = "1s"\nagent = "remote"\n') as there,
            there.agent(token=there.world.served.token) as client,
        ):
            tasks = [client.knows("schedule", prompt=text, at="now")["id"] for text in (PLANTS, CAT)]
            plants, cat = (there.run_of(task, "waiting").id for task in tasks)
            there.app.scheduler.resume(LOCAL, beat.definition.public_id)
            [request, *_] = hook.wait_for(1)
            agent_request = json.loads(request.body)
            assert f"run_id {plants}," in agent_request["text"] and f"run_id {cat}," in agent_request["text"]
            there.run_of(beat.definition.id, "waiting")
            assert client.call("take_prompt").text == "Nothing is due.", "they are in the hands of the webhook"
            there.app.scheduler.pause(LOCAL, beat.definition.public_id)
            with there.agent(token=agent_request["access"]["token"]) as agent:
                agent.knows("finish_prompt", run_id=plants, result="Wet.")
                agent.knows("finish_prompt", run_id=agent_request["run"], result="I did one of two.")
            assert there.ended(tasks[0]).result == '"Wet."'
            left = there.run_of(tasks[1], "waiting")
            assert (left.holder, left.attempt, left.error) == (None, 0, LEFT)
