"""Duetime from Python, as a user meets it: a real worker in this process."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.api import Duetime, NotStartedWarning
from duetime.engine.clock import datetime_of
from duetime.engine.errors import InvalidInput, Refused
from duetime.engine.model import Schedule
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.registry import Registry
from duetime.settings import AgentSettings, Settings
from duetime.testing import Simulation

PATIENCE = 20.0


def settings(path: Path) -> Settings:
    return Settings(db=str(path / "duetime.db"), timezone="UTC", threads=4, smallest_interval=0.01)


def test_what_is_scheduled_fires_after_start(tmp_path: Path) -> None:
    registry, fired = Registry(), threading.Event()

    @registry.task
    def ring(word: str) -> str:
        fired.set()
        return word.upper()

    with Duetime(settings=settings(tmp_path), registry=registry) as duetime:
        job = duetime.schedule("ring", kwargs={"word": "now"}, every=0.05, max_runs=1)
        assert fired.wait(PATIENCE)
        assert duetime.stop() == 0
        (run,) = duetime.history(job.id)
        assert (run.status, run.result) == ("completed", "NOW")


def test_a_sleeping_worker_wakes_for_what_is_due_at_once(tmp_path: Path) -> None:
    registry, fired = Registry(), threading.Event()
    registry.task(name="ring")(fired.set)
    with Duetime(settings=settings(tmp_path), registry=registry) as duetime:
        job = duetime.schedule("ring", at=datetime(2100, 1, 1, tzinfo=UTC))
        duetime.run_now(job.id)
        assert fired.wait(PATIENCE)


def test_nothing_fires_before_start_and_it_says_so(tmp_path: Path) -> None:
    duetime = Duetime(settings=settings(tmp_path), registry=Registry())
    with pytest.warns(NotStartedWarning, match="call start"):
        duetime.schedule("echo", every=1)
    duetime.close()


def test_what_was_acknowledged_is_there_for_the_next_process(tmp_path: Path) -> None:
    with Duetime(settings=settings(tmp_path), registry=Registry()) as first:
        job = first.schedule("echo", cron="0 9 * * *")
    second = Duetime(settings=settings(tmp_path), registry=Registry())
    assert second.get(job.id).name == "echo"
    second.close()


def test_a_refusal_is_raised_with_its_reason(tmp_path: Path) -> None:
    with Duetime(settings=settings(tmp_path), registry=Registry()) as duetime:
        with pytest.raises(Refused, match="Unknown task: nope"):
            duetime.schedule("nope", every=1)
        with pytest.raises(Refused, match="no schedule"):
            duetime.get("job_1_1")
        with pytest.raises(InvalidInput, match="exactly one"):
            duetime.schedule("echo")
        with pytest.raises(InvalidInput, match="exactly one"):
            duetime.schedule("echo", every=1, cron="* * * * *")
        for name, meant in {"evry": "every", "tz": "timezone"}.items():
            with pytest.raises(InvalidInput, match=f"{name}: there is no such option; did you mean {meant}"):
                duetime.schedule("echo", **{"every": 1, name: "1h"})  # type: ignore[arg-type]
        for found in (lambda: duetime.schedules(kind="jobs"), lambda: duetime.history(kind="jobs")):
            with pytest.raises(InvalidInput, match="kind: there is no 'jobs'; choose from job, "):
                found()
        with pytest.raises(InvalidInput, match=r"Unknown status: busy\. Choose one of: pending, "):
            duetime.schedules(status="busy")
        with pytest.raises(InvalidInput, match=r"Unknown status: faild\. Choose one of: pending, "):
            duetime.history(status="faild")


@pytest.fixture(params=["sqlite", "postgres"])
def prompts(request: pytest.FixtureRequest, tmp_path: Path) -> Duetime:
    url = request.getfixturevalue("clean_postgres_url") if request.param == "postgres" else str(tmp_path / "duetime.db")
    agents = {"coder": AgentSettings(command=("cat",))}
    duetime = Duetime(settings=Settings(db=url, timezone="UTC", agents=agents), registry=Registry())
    request.addfinalizer(duetime.close)
    return duetime


SOON = datetime(2100, 2, 10, 15, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def _stored(duetime: Duetime, payload: dict[str, Any]) -> str:
    """A prompt with more to it than the three functions know of."""
    new = NewSchedule("prompt", "a prompt", "once", {"run_at": SOON.isoformat()}, payload)
    return duetime.scheduler.create(duetime.caller, new).definition.public_id


@pytest.mark.filterwarnings("ignore::duetime.api.NotStartedWarning")
class TestScheduledTasks:
    """The three functions of the prompt family, with their guards and row counts."""

    def test_list_defaults_to_pending_in_the_order_of_firing(self, prompts: Duetime) -> None:
        late = prompts.create_scheduled_task("late", SOON + DAY)
        early = prompts.create_scheduled_task("early", SOON)
        gone = prompts.create_scheduled_task("gone", SOON)
        prompts.cancel_scheduled_task(gone.id)
        assert [task.id for task in prompts.list_scheduled_tasks()] == [early.id, late.id]

    def test_list_by_status(self, prompts: Duetime) -> None:
        task = prompts.create_scheduled_task("gone", SOON)
        prompts.create_scheduled_task("stays", SOON)
        prompts.cancel_scheduled_task(task.id)
        (cancelled,) = prompts.list_scheduled_tasks(status="cancelled")
        assert (cancelled.id, cancelled.fire_at) == (task.id, SOON)
        assert len(prompts.list_scheduled_tasks(status="all")) == 2

    def test_list_by_range_and_by_both(self, prompts: Duetime) -> None:
        tasks = [prompts.create_scheduled_task(str(number), SOON + number * DAY) for number in range(4)]
        prompts.cancel_scheduled_task(tasks[2].id)
        found = prompts.list_scheduled_tasks(from_=SOON + DAY, to=SOON + 3 * DAY)
        assert [task.prompt for task in found] == ["1", "3"]
        assert [task.prompt for task in prompts.list_scheduled_tasks("cancelled", SOON + DAY, SOON + 3 * DAY)] == ["2"]

    def test_list_of_nothing(self, prompts: Duetime) -> None:
        assert prompts.list_scheduled_tasks() == []
        with pytest.raises(Refused, match="Unknown status"):
            prompts.list_scheduled_tasks(status="sleeping")

    @pytest.mark.parametrize(
        ("fire_at", "prompt"), [(SOON + DAY, None), (None, "new"), (SOON + DAY, "new")], ids=["time", "prompt", "both"]
    )
    def test_update(self, prompts: Duetime, fire_at: datetime | None, prompt: str | None) -> None:
        task = prompts.create_scheduled_task("old", SOON)
        assert prompts.update_scheduled_task(task.id, fire_at=fire_at, prompt=prompt) == 1
        (found,) = prompts.list_scheduled_tasks()
        assert (found.fire_at, found.prompt) == (fire_at or SOON, prompt or "old")

    @pytest.mark.parametrize(
        "parts", [{"agent": "coder", "max_runs_per_day": 2, "max_dollars_per_day": 0.5}, {"remind": True}]
    )
    def test_a_new_text_leaves_the_rest_as_it_was(self, prompts: Duetime, parts: dict[str, Any]) -> None:
        id = _stored(prompts, {"prompt": "old", **parts})
        before = prompts.scheduler.find(prompts.caller, id)
        assert prompts.update_scheduled_task(int(id), prompt="new") == 1
        found = prompts.scheduler.find(prompts.caller, id)
        assert before is not None and found is not None
        assert json.loads(found.definition.payload) == {"prompt": "new", **parts}
        assert (found.definition.subject, found.definition.policy) == (
            before.definition.subject,
            before.definition.policy,
        )

    def test_an_edit_that_came_between_is_kept(self, prompts: Duetime, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was read is out of date when it is written: it is read again, and nothing of either edit is lost."""
        id = _stored(prompts, {"prompt": "old"})
        find, between = prompts.scheduler.find, iter([{"prompt": "theirs", "agent": "coder"}])

        def find_and_lose_the_race(*asked: Any) -> Schedule | None:
            found = find(*asked)
            if asked[2:] == ("prompt",) and (payload := next(between, None)) is not None:
                prompts.edit(id, payload=payload)
            return found

        monkeypatch.setattr(prompts.scheduler, "find", find_and_lose_the_race)
        assert prompts.update_scheduled_task(int(id), prompt="mine") == 1
        assert prompts.get(id).payload == {"prompt": "mine", "agent": "coder"}

    def test_update_of_what_is_not_there_or_not_pending(self, prompts: Duetime) -> None:
        assert prompts.update_scheduled_task(4711, prompt="new") == 0
        task = prompts.create_scheduled_task("old", SOON)
        prompts.cancel_scheduled_task(task.id)
        assert prompts.update_scheduled_task(task.id, prompt="new") == 0
        with pytest.raises(InvalidInput, match="at least one"):
            prompts.update_scheduled_task(task.id)

    def test_cancel(self, prompts: Duetime) -> None:
        task = prompts.create_scheduled_task("old", SOON)
        assert prompts.cancel_scheduled_task(task.id) == 1
        assert prompts.cancel_scheduled_task(task.id) == 0
        assert prompts.cancel_scheduled_task(4711) == 0


@pytest.mark.parametrize("given", [{"every": "1d"}, {"when": "every day"}, {"when": "every day at 9am"}])
def test_every_day_stays_at_nine_when_clocks_change(given: dict[str, str]) -> None:
    """9:00 in New York is 14:00 UTC until 13 March 2027, and 13:00 UTC from 14 March on."""
    with Simulation(datetime(2027, 3, 12, 14, tzinfo=UTC), timezone="America/New_York") as simulation:
        simulation.duetime.schedule("echo", args=["hi"], **given)  # type: ignore[arg-type]
        simulation.advance(timedelta(days=4))
        due = [datetime_of(run.due).strftime("%d %H:%M") for run in simulation.runs()]
    assert due == ["13 14:00", "14 13:00", "15 13:00", "16 13:00"]


def test_a_timedelta_is_exact_when_clocks_change() -> None:
    with Simulation(datetime(2027, 3, 12, 14, tzinfo=UTC), timezone="America/New_York") as simulation:
        simulation.duetime.schedule("echo", args=["hi"], every=timedelta(days=1))
        simulation.advance(timedelta(days=3))
        due = [datetime_of(run.due).strftime("%d %H:%M") for run in simulation.runs()]
    assert due == ["13 14:00", "14 14:00", "15 14:00"]


@pytest.mark.filterwarnings("ignore::duetime.api.NotStartedWarning")
@pytest.mark.parametrize(
    ("function", "given", "field"),
    [
        ("update_scheduled_task", {"id": 1, "fire_at": 5}, "fire_at"),
        ("update_scheduled_task", {"id": 1, "prompt": 5}, "prompt"),
        ("create_scheduled_task", {"prompt": 5, "fire_at": SOON}, "prompt"),
        ("create_scheduled_task", {"prompt": "tea", "fire_at": "soon"}, "fire_at"),
        ("list_scheduled_tasks", {"from_": 5}, "from_"),
        ("list_scheduled_tasks", {"to": "whenever"}, "to"),
        ("schedule", {"task": "echo", "args": "abc", "every": "1h"}, "args"),
        ("edit", {"id": 1}, None),
        ("edit", {"id": 1, "version": 1}, None),
    ],
)
def test_values_of_a_wrong_type_and_empty_edits_are_refused(
    prompts: Duetime, function: str, given: dict[str, Any], field: str | None
) -> None:
    task = prompts.create_scheduled_task("water", SOON)
    with pytest.raises(InvalidInput) as caught:
        getattr(prompts, function)(**given)
    assert caught.value.field == field
    assert (task.id, prompts.get(task.id).version) == (1, 1)
