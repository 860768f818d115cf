"""The token of an agent's run: whom it speaks for, and how long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import HOUR, Instant
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.model import Run, run_holder
from duetime.engine.outcome import Completed, Waiting
from duetime.engine.policy.record import Finished
from duetime.engine.store import ClaimRequest
from duetime.security.claims import InvalidToken
from duetime.service.tokens import runs_under_way
from tests.support.api import Api, serving_api
from tests.support.tokens import MemoryRevocations, tokens_with


class Stage:
    """A prompt in the hands of a worker that the test plays."""

    def __init__(self, there: Api) -> None:
        self.api, self.store, self.now = there, there.room.store, there.room.clock.now()
        there.tokens.is_under_way = runs_under_way(self.store)
        there.client().post(
            "/schedules",
            {"kind": "prompt", "name": "x", "trigger": {"type": "once", "run_at": "now"}, "payload": {"prompt": "x"}},
            201,
        )
        self.worker = self.store.register("test", ["prompt"], False, self.now)
        [claim] = self.store.record_and_claim(
            self.worker, self.now, [], [ClaimRequest("prompt", 1, Instant(self.now + HOUR))]
        ).claims
        self.run: Run = claim.run

    def token(self, fence: int | None = None) -> str:
        fence = self.run.fence if fence is None else fence
        return self.api.tokens.for_run("ada", self.run.id, fence, 2, HOUR, "Asia/Tokyo")

    def ends(self, outcome: Completed | Waiting) -> None:
        done = Finished(self.run.id, self.run.fence, outcome, self.now, self.now)
        self.store.record_and_claim(self.worker, self.now, [done], [])

    def asks(self, token: str, path: str = "/whoami") -> Any:
        return self.api.http.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with serving_api(tmp_path) as there:
        yield Stage(there)


def test_it_speaks_for_the_owner_one_level_deeper(stage: Stage) -> None:
    answer = stage.asks(stage.token())
    assert answer.status_code == 200
    assert answer.json() == {"owner": "ada", "operator": False, "timezone": "Asia/Tokyo", "depth": 2}


def test_it_serves_while_the_run_waits_and_no_longer(stage: Stage) -> None:
    stage.ends(Waiting(Instant(stage.now + HOUR), run_holder(stage.run.id, stage.run.fence)))
    token = stage.token()
    assert stage.asks(token).status_code == 200
    caller = Caller("ada", holder=stage.api.tokens.verify(token).id)
    stage.api.room.scheduler.finish(caller, stage.run.id, Completed())
    assert stage.asks(token).status_code == 401


def test_it_ends_with_the_run(stage: Stage) -> None:
    stage.ends(Completed())
    answer = stage.asks(stage.token())
    assert answer.status_code == 401 and answer.json()["detail"] == "The run that this token was for is over."


@pytest.mark.parametrize("fence", [0, 2])
def test_of_another_attempt_it_is_worth_nothing(stage: Stage, fence: int) -> None:
    assert stage.run.fence == 1 and stage.asks(stage.token(fence)).status_code == 401


def test_it_can_be_revoked(stage: Stage) -> None:
    token = stage.token()
    stage.api.tokens.revoke(stage.api.tokens.verify(token).id)
    assert stage.asks(token).json()["detail"] == "The token was revoked."


def test_whoever_does_not_know_the_store_lets_none_in(stage: Stage, tmp_path: Path) -> None:
    others = tokens_with(MemoryRevocations(), tmp_path / "auth", stage.api.room.clock)
    with pytest.raises(InvalidToken, match="is over"):
        others.verify(stage.token())


@pytest.mark.parametrize("path", ["/api/v1/whoami", "/mcp"])
def test_while_the_store_is_away_nothing_is_said_of_it(stage: Stage, path: str) -> None:
    def away(run: int, fence: int) -> bool:
        raise StoreUnavailable("/srv/secret.db is locked")

    token = stage.token()
    stage.api.tokens.is_under_way = away
    answer = stage.api.http.get(path, headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "cannot be reached right now" in answer.text and "secret" not in answer.text
