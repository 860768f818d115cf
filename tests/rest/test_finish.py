"""`POST /runs/{id}/finish`: an agent that answers later does so over plain HTTP, and its answer counts as any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from duetime.engine.clock import HOUR, Instant
from duetime.engine.encoding import LIMIT
from duetime.engine.kind import Caller
from duetime.engine.model import Run, RunStatus, run_holder
from duetime.engine.outcome import Completed, Waiting
from duetime.engine.policy.record import Finished
from duetime.engine.store import ClaimRequest
from duetime.kinds.prompts.agent import AgentReply
from duetime.kinds.prompts.inbox import finish_later
from duetime.service.tokens import runs_under_way
from duetime.settings import AgentSettings
from tests.support.api import Api, Client, serving_api
from tests.support.refusals import refusal_of

REMOTE = AgentSettings(type="webhook", url="http://127.0.0.1:9/", secret="s", tokens_per_day=100)
WHOLE = {
    "text": "Watered.",
    "outcome": {"plants": 3},
    "tool_calls": [{"name": "schedule_list", "arguments": {"status": "all"}}],
    "usage": {"input_tokens": 40, "output_tokens": 30, "dollars": 0.5},
}
PROMPT = {
    "kind": "prompt",
    "name": "x",
    "trigger": {"type": "once", "run_at": "now"},
    "payload": {"prompt": "x", "agent": "remote"},
}


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value]
    return value


class Stage:
    """Prompts that were handed to a webhook, which said that it would answer later."""

    def __init__(self, api: Api) -> None:
        self.api, self.store, self.now = api, api.room.store, api.room.clock.now()
        api.tokens.is_under_way = runs_under_way(self.store)
        self.worker = self.store.register("test", ["prompt"], False, self.now)

    def claimed(self, owner: str = "ada", agent: str = "remote") -> Run:
        self.api.client(owner).post("/schedules", {**PROMPT, "payload": {"prompt": "x", "agent": agent}}, 201)
        [claim] = self.store.record_and_claim(
            self.worker, self.now, [], [ClaimRequest("prompt", 1, Instant(self.now + HOUR))]
        ).claims
        return claim.run

    def waits(self, run: Run, *, handed_over: bool = True) -> Run:
        waiting = Waiting(Instant(self.now + HOUR), run_holder(run.id, run.fence)) if handed_over else Waiting()
        self.ends(run, waiting)
        return run

    def ends(self, run: Run, outcome: Completed | Waiting) -> None:
        self.store.record_and_claim(
            self.worker, self.now, [Finished(run.id, run.fence, outcome, self.now, self.now)], []
        )

    def hook(self, run: Run, fence: int | None = None) -> Client:
        token = self.api.tokens.for_run(run.owner, run.id, run.fence if fence is None else fence, 1, HOUR, "UTC")
        return Client(self.api.http, self.api.described, {"Authorization": f"Bearer {token}"})

    def the(self, run: Run) -> Run:
        found = self.store.run(run.id)
        assert found is not None
        return found


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with serving_api(tmp_path, agents={"remote": REMOTE}) as api:
        yield Stage(api)


def finish(client: Client, run: Run, body: Any = WHOLE) -> httpx2.Response:
    return client.ask("POST", f"/runs/{run.id}/finish", json=body)


def test_the_token_of_the_run_brings_the_whole_answer(stage: Stage) -> None:
    run = stage.waits(stage.claimed())
    answer = finish(stage.hook(run), run)
    assert answer.status_code == 200 and answer.json()["status"] == "completed"
    assert answer.json()["result"] == {**WHOLE, "agent": "remote"}
    assert finish(stage.hook(run), run).status_code == 401, "with the run its token is over"


def test_it_ends_no_other_run(stage: Stage) -> None:
    mine, other = (stage.waits(stage.claimed()) for _ in range(2))
    inbox, taken = (stage.waits(stage.claimed(agent="inbox"), handed_over=False) for _ in range(2))
    hands = Caller("ada", depth=1, holder=run_holder(mine.id, mine.fence))
    stage.api.room.scheduler.take(hands, "prompt")
    for run in (other, inbox, taken):
        answer = finish(stage.hook(mine), run)
        assert answer.status_code == 409 and answer.json()["detail"] == f"Run {run.id} is not yours to finish."
        assert stage.the(run).status == RunStatus.WAITING
    assert finish(stage.hook(mine), mine).status_code == 200


def test_of_an_earlier_attempt_it_is_worth_nothing(stage: Stage) -> None:
    run = stage.waits(stage.claimed())
    assert finish(stage.hook(run, run.fence - 1), run).status_code == 401


def test_its_owner_may_answer_in_its_place(stage: Stage) -> None:
    run = stage.waits(stage.claimed())
    assert finish(stage.api.client("bob"), run).status_code == 404
    assert finish(stage.api.client("root", "operator"), run).status_code == 409
    assert finish(stage.api.client("ada"), run, {"text": "I did it myself."}).status_code == 200
    assert json.loads(stage.the(run).result or "") == {"text": "I did it myself.", "agent": "remote"}


def test_what_was_taken_is_finished_by_who_took_it_alone(stage: Stage) -> None:
    run = stage.waits(stage.claimed(agent="inbox"), handed_over=False)
    ada, again = stage.api.client("ada"), stage.api.client("ada")
    assert finish(ada, run).json()["detail"] == f"Run {run.id} is not yours to finish."
    token = ada.headers["Authorization"].removeprefix("Bearer ")
    hands = Caller("ada", holder=stage.api.tokens.verify(token).id)
    stage.api.room.scheduler.take(hands, "prompt")
    assert finish(again, run).status_code == 409
    assert finish(ada, run).json()["status"] == "completed"


def test_only_what_waits_can_be_finished(stage: Stage) -> None:
    running, over = stage.claimed(), stage.claimed()
    stage.ends(over, Completed('"done"'))
    ada = stage.api.client("ada")
    assert finish(ada, running).json()["detail"] == "it is running, so it cannot be finished"
    assert finish(ada, over).json()["detail"] == "it is completed, so it cannot be finished"
    assert stage.the(over).result == '"done"'


def test_what_is_deleted_while_it_answers_is_not_its_own_any_more(stage: Stage) -> None:
    """Between the look at the run and its end."""
    run, room = stage.waits(stage.claimed()), stage.api.room
    caller = Caller("ada", holder=run_holder(run.id, run.fence))
    schedule = room.scheduler.schedule_of(caller, run)
    assert schedule is not None
    room.scheduler.delete(caller, schedule.definition.public_id)
    answer = refusal_of(lambda: finish_later(room.services, caller, run, AgentReply("Watered.")))
    assert answer.code == "not_yours"
    assert stage.the(run).status == RunStatus.CANCELLED


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": "no water"}, "no water"),
        ({"text": "half", "denied": ["Bash"]}, "it was denied Bash, so it did not do all it was asked for"),
    ],
)
def test_it_may_say_that_it_failed(stage: Stage, body: dict[str, Any], error: str) -> None:
    run = stage.waits(stage.claimed())
    answer = finish(stage.hook(run), run, body).json()
    assert (answer["status"], answer["error"]) == ("failed", error) and answer["result"]["agent"] == "remote"


def test_what_it_used_counts_under_the_limits_of_the_day(stage: Stage) -> None:
    for _ in range(2):
        run = stage.waits(stage.claimed())
        assert finish(stage.hook(run), run).status_code == 200
    made = stage.api.client("ada").post("/schedules", PROMPT, 201)
    stage.api.simulation.settle()
    [held] = stage.api.client("ada").get(f"/schedules/{made['id']}/runs")["runs"]
    assert (held["status"], held["error"]) == (
        "pending",
        "the limit of 100 tokens a day for the agent remote is reached",
    )


def test_a_long_answer_is_cut_and_keeps_its_parts(stage: Stage) -> None:
    run = stage.waits(stage.claimed())
    assert finish(stage.hook(run), run, {**WHOLE, "text": "A" * 250_000}).status_code == 200
    kept = stage.the(run).result or ""
    assert len(kept.encode()) <= LIMIT and json.loads(kept)["text"].endswith("A [… cut]")
    assert json.loads(kept)["usage"] == WHOLE["usage"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"result": "x"}, "result"),
        ({"text": 7}, "text"),
        ({"error": ""}, "error"),
        ({"usage": {"input_tokens": -1}}, "usage.input_tokens"),
        ({"usage": {"dollars": 10**9}}, "usage.dollars"),
        ({"denied": [""]}, "denied.0"),
        ({"tool_calls": [{"arguments": {}}]}, "tool_calls.0.name"),
        ({"outcome": _deep()}, "outcome"),
    ],
)
def test_what_cannot_be_an_answer_is_refused_by_name(stage: Stage, body: dict[str, Any], field: str) -> None:
    run = stage.waits(stage.claimed())
    problem = stage.hook(run).refused("POST", f"/runs/{run.id}/finish", 422, json=body)
    assert problem["field"] == field and stage.the(run).status == RunStatus.WAITING
    plain = stage.hook(run).ask(
        "POST", f"/runs/{run.id}/finish", content=b"done", headers={"Content-Type": "text/plain"}
    )
    assert plain.status_code == 415
