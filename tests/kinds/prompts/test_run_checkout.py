"""What an agent's run takes from the inbox: its own token finishes it, and with the run it waits again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import Run, run_holder
from duetime.engine.outcome import Outcome
from duetime.engine.policy.checkout import LEFT
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.prompts.agent import AgentReply, AgentRequest, Spent
from duetime.kinds.prompts.agents.heartbeat import BEAT, HeartbeatAgent
from duetime.kinds.prompts.inbox import ReleasingAgent, RunCheckout
from duetime.testing import Simulation
from tests.support.agent import Agent
from tests.support.refusals import attempt
from tests.support.waking import agent_request

LOCAL = Caller("local")
NOON = datetime(2031, 2, 10, 12, 0, tzinfo=UTC)
TOKEN = Caller("local", depth=1, holder=run_holder(7, 1))
"""Who the agent is that the agent_request of these tests was made for."""


class Inbox:
    """Of a Duetime on a settable clock."""

    def __init__(self) -> None:
        self.time = Simulation(NOON)
        self.app = self.time.duetime.app
        self.checkout = RunCheckout(lambda: self.app.scheduler, "heartbeat")
        self.agent = Agent(self.app.services, TOKEN)

    def gets(self, *prompts: str, **policy: object) -> None:
        """They are due one after the other, and wait."""
        for prompt in prompts:
            made = NewSchedule("prompt", prompt, "once", {"run_at": "in 1 second"}, {"prompt": prompt}, policy)
            self.app.scheduler.create(LOCAL, made)
            self.time.advance(timedelta(seconds=1))

    def runs(self) -> dict[str, Run]:
        return {run.name: run for run in self.app.store.runs(RunQuery(kind="prompt")).items}

    def taken(self, woken: AgentRequest) -> list[str]:
        return [due.prompt for due in self.checkout.take(woken)]


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inbox]:
    """Its agent is the heartbeat, which also takes what waits in the inbox."""
    monkeypatch.setattr("duetime.kinds.prompts.mcp.inbox._own_agents", lambda call: ("heartbeat", "inbox"))
    made = Inbox()
    yield made
    made.time.close()


class Acts:
    """An agent that does something and answers."""

    def __init__(self, does: Callable[[], object], answer: AgentReply | None = None) -> None:
        self._does, self._answer = does, answer or AgentReply(text="Done.")

    def wake(self, agent_request: AgentRequest) -> AgentReply | Outcome:
        self._does()
        return self._answer

    def missing(self) -> str | None:
        return None

    def close(self) -> None: ...


def test_its_own_token_finishes_what_a_run_took(inbox: Inbox) -> None:
    inbox.gets("plants", "cat")
    woken = agent_request(prompt=BEAT)
    plants, cat = inbox.checkout.take(woken)
    assert inbox.checkout.left(woken) == 2
    assert inbox.agent.hears("finish_prompt", run_id=plants.run, result="wet") == f"Finished task #{plants.task}."
    assert inbox.checkout.left(woken) == 1
    later = Agent(inbox.app.services, TOKEN._replace(holder=run_holder(7, 2)))
    assert later.hears("finish_prompt", run_id=cat.run, result="x") == f"Run {cat.run} is not yours to finish."
    inbox.checkout.give_back(woken, "it rains")
    run = inbox.runs()["cat"]
    assert (run.status, run.holder, run.attempt, run.error) == ("waiting", None, 0, "it rains")
    assert inbox.runs()["plants"].result == '"wet"'


def test_it_has_them_as_long_as_it_lasts(inbox: Inbox) -> None:
    """However short their own time: another agent would do them once more meanwhile."""
    inbox.gets("plants", timeout=2 * SECOND)
    woken = agent_request(prompt=BEAT, patience=600.0)
    assert inbox.taken(woken) == ["plants"]
    inbox.time.advance(timedelta(minutes=10))
    assert inbox.agent.hears("take_prompt") == "Nothing is due."
    assert inbox.checkout.left(woken) == 1


def test_what_was_left_over_is_handed_over_alone(inbox: Inbox) -> None:
    """So that an agent that finishes none of several still does one after the other."""
    inbox.gets("plants", "cat", "windows")
    woken = agent_request(prompt=BEAT)
    assert inbox.taken(woken) == ["plants", "cat", "windows"]
    inbox.checkout.give_back(woken, LEFT)
    for prompt in ("plants", "cat", "windows"):
        [due] = inbox.checkout.take(woken)
        assert due.prompt == prompt
        inbox.checkout.finish(woken, due, AgentReply(text=f"{prompt}: done."))
    assert inbox.taken(woken) == []
    for reason in ("the heartbeat failed: no room", "the heartbeat was stopped (shutdown)"):
        inbox.gets(f"{reason} 1", f"{reason} 2")
        assert len(inbox.taken(woken)) == 2
        inbox.checkout.give_back(woken, reason)
        assert len(inbox.taken(woken)) == 2, "by no fault of theirs"
        inbox.checkout.give_back(woken, reason)
        for run in inbox.runs().values():
            attempt(inbox.app.scheduler.cancel_run, LOCAL, run.id)


def test_an_answer_is_kept_with_its_calls_and_what_it_used(inbox: Inbox) -> None:
    inbox.gets("plants")
    woken = agent_request(prompt=BEAT)
    [due] = inbox.checkout.take(woken)
    calls = [{"name": "schedule", "arguments": {}}]
    inbox.checkout.finish(woken, due, AgentReply(text="Wet.", tool_calls=calls, spent=Spent(input_tokens=5)))
    kept = json.loads(inbox.runs()["plants"].result or "")
    assert (kept["text"], kept["agent"]) == ("Wet.", "heartbeat")
    assert kept["tool_calls"] == calls and kept["usage"] == {"input_tokens": 5}


@pytest.mark.parametrize(
    "reply", [AgentReply(text="Alas.", denied=["Bash"]), AgentReply(error="it broke", permanent=True)]
)
def test_an_answer_that_is_no_success_fails_it(inbox: Inbox, reply: AgentReply) -> None:
    inbox.gets("plants")
    woken = agent_request(prompt=BEAT)
    [due] = inbox.checkout.take(woken)
    inbox.checkout.finish(woken, due, reply)
    assert inbox.runs()["plants"].status == "failed"


def test_an_answer_that_comes_too_late_is_said_so(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    inbox.gets("plants", "cat")
    woken = agent_request(prompt=BEAT)
    plants, cat = inbox.checkout.take(woken)
    inbox.agent.use("finish_prompt", run_id=plants.run, result="wet")
    inbox.app.scheduler.cancel_run(LOCAL, cat.run)
    with caplog.at_level(logging.WARNING):
        inbox.checkout.finish(woken, plants, AgentReply(text="All is done."))
        assert not caplog.messages, "its agent has finished it already"
        inbox.checkout.finish(woken, cat, AgentReply(text="All is done."))
    lost = f"the answer of run 7 to the prompt of run {cat.run} is lost: Run {cat.run} is not yours to finish."
    assert caplog.messages == [lost]
    assert inbox.runs()["plants"].result == '"wet"'


def test_a_run_that_is_over_has_nothing_in_its_hands(inbox: Inbox) -> None:
    inbox.gets("plants", "cat")

    def takes() -> None:
        assert "run_id" in inbox.agent.knows("take_prompt")

    ReleasingAgent(Acts(takes), inbox.checkout).wake(agent_request())
    assert [(run.holder, run.attempt) for run in inbox.runs().values()] == [(None, 0), (None, 0)]

    def breaks() -> None:
        takes()
        raise MemoryError

    with pytest.raises(MemoryError):
        ReleasingAgent(Acts(breaks), inbox.checkout).wake(agent_request())
    assert inbox.runs()["plants"].holder is None and inbox.runs()["plants"].error == LEFT


def test_a_run_that_goes_on_keeps_what_it_took(inbox: Inbox) -> None:
    inbox.gets("plants")
    later = AgentReply(waiting_until=Instant(inbox.time.clock.now() + 60 * SECOND))
    ReleasingAgent(Acts(lambda: inbox.agent.use("take_prompt"), later), inbox.checkout).wake(agent_request())
    assert inbox.runs()["plants"].holder == TOKEN.holder


def test_a_whole_beat(inbox: Inbox, tmp_path: Path) -> None:
    """Of three prompts its agent finishes two, and takes a further one that came meanwhile."""
    file = tmp_path / "HEARTBEAT.md"
    file.write_text("Look after the house.")
    inbox.gets("plants", "cat", "windows")

    def works() -> None:
        for name in ("plants", "windows"):
            inbox.agent.use("finish_prompt", run_id=inbox.runs()[name].id, result=f"{name}: done")
        inbox.gets("door")
        assert inbox.agent.knows("take_prompt")["prompt"] == "door"

    HeartbeatAgent(Acts(works), file, "local", "UTC", inbox.checkout).wake(agent_request(prompt=BEAT))
    runs = inbox.runs()
    assert [runs[name].result for name in ("plants", "windows")] == ['"plants: done"', '"windows: done"']
    for name in ("cat", "door"):
        assert (runs[name].status, runs[name].holder, runs[name].result) == ("waiting", None, None)
        assert runs[name].error == "the heartbeat did others and did not come to it"
