"""A due prompt wakes the built-in agent inside a real server; what it does is kept, told, and kept within limits."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from duetime.engine.clock import datetime_of
from duetime.engine.policy.options import ALERTS
from duetime.engine.store import ScheduleQuery
from duetime.engine.times import iso_local
from tests.support.agency import MAX_DEPTH, Agency
from tests.support.mcp import unique
from tests.support.model_server import call, say, together
from tests.support.woken import result_of

PLAN = [
    together(
        call("schedule", prompt="water the plants", at="2031-02-10 3:00 PM"),
        call("schedule", prompt="feed the cat", cron="0 8 * * *"),
    ),
    call("schedule_list", {"from": "2031-02-10", "to": "2031-02-10"}),
    call(
        "schedule_edit", lambda seen: {"id": seen.data("schedule_list")["tasks"][0]["id"], "at": "2031-02-10 4:00 PM"}
    ),
    call("schedule_cancel", lambda seen: {"id": seen.number("schedule")}),
    call("send_push_notification", message="I am at it.", notification_topic="progress"),
    say("The plants get water at four."),
]


def test_a_due_prompt_wakes_the_agent_which_uses_the_tools(shared_agency: Agency) -> None:
    there, owner, prompt = shared_agency, unique("owner"), unique("Plan my day")
    there.plays[prompt] = PLAN
    with there.agent(owner) as client:
        made = client.call("schedule", prompt=prompt, at="now", deliver_to="daily-report")
        assert "\nNote: wakes the agent builtin." in made.text and made.data["wakes"] == "builtin"
        run = there.ended(made.data["id"])
        kept = result_of(run)
        shown = client.content(f"prompts://runs/{run.id}")
        tasks = {task["prompt"]: task for task in client.knows("schedule_list", status="all")["tasks"]}
    assert run.status == "completed" and kept["text"] == "The plants get water at four."
    called = [each["name"] for each in kept["tool_calls"]]
    assert called == ["schedule"] * 2 + ["schedule_list", "schedule_edit", "schedule_cancel", "send_push_notification"]
    assert not any(each.get("failed") for each in kept["tool_calls"])
    usage = kept["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (600, 60) and usage["dollars"] > 0
    assert (shown["status"], shown["prompt"], shown["result"]) == ("completed", prompt, kept)
    assert (tasks["water the plants"]["status"], tasks["feed the cat"]["status"]) == ("pending", "cancelled")
    assert tasks["water the plants"]["fire_at"] == "2031-02-10T16:00:00+01:00", "in the owner's zone"
    for text, depth in {prompt: 0, "water the plants": 1, "feed the cat": 1}.items():
        definition = there.prompts(owner)[text].definition
        assert (definition.owner, definition.depth) == (owner, depth)
    [progress], [report] = there.arrived(owner, "progress"), there.arrived(owner, "daily-report")
    assert progress["message"] == "I am at it." and report["message"] == "The plants get water at four."
    assert "eyJ" not in (run.result or ""), "no token is kept"


def test_its_token_ends_with_the_run(shared_agency: Agency) -> None:
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:
        run = there.ended(client.knows("schedule", prompt="look", at="now")["id"])
    answer = there.api(there.run_token(run), "/whoami")
    assert answer.status_code == 401 and "is over" in answer.json()["detail"]


def test_an_agent_that_schedules_itself_ends_at_the_depth(shared_agency: Agency) -> None:
    there, owner, prompt = shared_agency, unique("owner"), unique("And again")
    there.plays[prompt] = [call("schedule", prompt=prompt, at="now"), say("I go on.")]
    with there.agent(owner) as client:
        client.call("schedule", prompt=prompt, at="now")
        [alert] = there.arrived(owner, ALERTS)
        client.until(lambda: "No scheduled" in client.call("schedule_list", status="running").text, 20, "the last ends")
        assert "No scheduled" in client.call("schedule_list").text, "nothing is to come"
    runs = there.runs(owner=owner, kind="prompt")
    assert [run.status for run in runs] == ["completed"] * (MAX_DEPTH + 1)
    schedules = there.app.store.search(ScheduleQuery(owner=owner, kind="prompt")).items
    assert sorted(each.definition.depth for each in schedules) == list(range(MAX_DEPTH + 1))
    refusals = [result_of(run)["tool_calls"][0]["result"] for run in runs]
    assert [f"at most {MAX_DEPTH} deep" in each for each in refusals] == [False] * MAX_DEPTH + [True]
    assert alert["title"] == "An agent keeps scheduling itself" and f"at most {MAX_DEPTH} deep" in alert["message"]
    there.arrived(owner, ALERTS)


@pytest.mark.parametrize(
    ("agent", "words"),
    [("frugal", "200 tokens a day for the agent frugal"), ("thrifty", "$0.0005 a day for the agent thrifty")],
)
def test_what_an_agent_may_use_in_a_day(shared_agency: Agency, agent: str, words: str) -> None:
    """Each run uses 110 tokens: two have room, and what comes after them waits."""
    there, owner = shared_agency, unique("owner")
    with there.agent(owner) as client:

        def add(number: int) -> int:
            made = client.knows("schedule", prompt=f"look {number}", at="now", agent=agent)
            return int(made["id"])

        for number in (1, 2):
            assert there.ended(add(number)).status == "completed"
        for number in (3, 4):
            held = there.run_of(add(number), "pending")
            assert held.error == f"the limit of {words} is reached" and held.attempt == 0
        tasks = client.knows("schedule_list", status="running")["tasks"]
        assert len(tasks) == 2 and all(words in task["held"] for task in tasks)
        [told] = there.arrived(owner, ALERTS)
    assert words in told["message"] and told["title"] == "A limit of agent runs is reached"
    entry, zone = there.app.store.earliest(["prompt"]), there.app.scheduler.zone
    tomorrow = datetime_of(there.app.clock.now()).astimezone(ZoneInfo(zone)).date() + timedelta(days=1)
    assert entry is not None and iso_local(entry.at, zone).startswith(f"{tomorrow}T00:00:00")


@pytest.mark.parametrize("topic", [None, "kitchen"])
def test_a_reminder_wakes_nobody_and_arrives(shared_agency: Agency, topic: str | None) -> None:
    there, owner, prompt = shared_agency, unique("owner"), unique("Drink water")
    with there.agent(owner) as client:
        made = client.call("schedule", prompt=prompt, at="now", remind=True, deliver_to=topic)
    assert "no agent is woken" in made.text and "wakes" not in made.data
    [message] = there.arrived(owner, topic or "reminders")
    assert (message["title"], message["message"]) == ("Reminder", prompt)
    assert result_of(there.ended(made.data["id"])) == {"title": "Reminder", "text": prompt}
    assert there.thought_of(prompt) == 0


def test_an_agent_that_is_not_there(shared_agency: Agency) -> None:
    with shared_agency.agent() as client:
        words = client.call("schedule", prompt="look", at="now", agent="nobody").text
    assert words == (
        "Error: agent: there is no 'nobody'; choose from builtin, caller, frugal, hasty, remote, thrifty, inbox"
    )
