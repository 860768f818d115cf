"""Runs that an executor of the settings has: handed over, tracked, recorded once, held while it is away."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import ExecutorRow, Run, RunStatus, Trouble
from duetime.engine.outcome import Failed, Returned
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.context import PermanentError, outcome_of
from duetime.kinds.jobs.executors import types_of_executors
from duetime.kinds.jobs.executors.tracker import BATCH
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.loading import TaskModuleError, load
from duetime.kinds.jobs.registry import InvalidTask, Registry
from duetime.service.operations.attention import ListAttention, attention
from duetime.service.operations.history import History, history
from duetime.service.operations.status import executors, status
from duetime.service.operations.waiting import waited_for
from duetime.service.services import local_call
from duetime.service.vocabulary import clock_local
from duetime.service.workers import work_entry
from duetime.settings import ExecutorSettings
from tests.support import cluster_tasks
from tests.support.browsing import signed_in
from tests.support.cli import Cli
from tests.support.invariants import invariants
from tests.support.jobs import make_work
from tests.support.local_cluster import ForgetfulCluster, UninstalledCluster
from tests.support.tracking import CALLER, NAME, Tracked, handed_over, tracked
from tests.support.web import site
from tests.support.workers import ShiftedClock, eventually

FORGETFUL = f"{ForgetfulCluster.__module__}:{ForgetfulCluster.__name__}"


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    given = request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path / "due.db"
    return str(given)


@pytest.fixture
def heavy(url: str) -> Iterator[Tracked]:
    with tracked(url) as each:
        yield each
        invariants(each.store)  # type: ignore[arg-type]  # both stores are of this class


# -- from the claim to the record ---------------------------------------------------------------------------------


def test_a_run_waits_without_a_worker_and_its_result_is_recorded_once(heavy: Tracked, tmp_path: Path) -> None:
    gate, call = tmp_path / "gate", heavy.app.call
    schedule = handed_over(heavy, "wait_for", str(gate))
    run = heavy.run_of(schedule)
    assert (run.status, run.holder, run.attempt) == (RunStatus.WAITING, "on:cluster", 1)
    assert not heavy.worker.claimed
    view = heavy.view(schedule)
    assert (view["status"], view["state_detail"]) == ("running", "on cluster")
    assert [each.id for each in history(call, History(status="running")).value.items] == [run.id]
    assert history(call, History(status="waiting")).value.items == []
    assert waited_for(call, run)["reason"] == "it is still running on cluster"
    for _ in range(3):
        heavy.tracker.step()
    gate.touch()
    done = heavy.ended(schedule)
    assert (done.status, done.result, done.attempt) == (RunStatus.COMPLETED, '"done"', 1)
    heavy.tracker.step()
    assert len(heavy.cluster.submitted) == 1 and heavy.cluster.calls == {}
    assert heavy.store.attempts(done.id) == []


def test_a_task_knows_its_run_and_may_be_async(heavy: Tracked) -> None:
    schedule = heavy.create("about", name="told")
    done = heavy.ended(schedule)
    assert json.loads(done.result or "") == {"run": done.id, "attempt": 1, "owner": "local", "event": None, "gift": ""}
    assert heavy.ended(heavy.create("later(41)")).result == "42"


def test_the_input_of_a_run_arrives(heavy: Tracked) -> None:
    schedule = heavy.create("later", 1)
    assert heavy.ended(schedule).result == "2"
    again = heavy.app.scheduler.run_with(CALLER, schedule, {"task": "later", "args": [7]})
    assert heavy.run_ended(again.id).result == "8"


def test_the_data_of_an_event_arrive(heavy: Tracked) -> None:
    payload = {"task": "about", "kwargs": {"gift": "{size}"}}
    heavy.app.scheduler.create(CALLER, NewSchedule("job", "listens", "event", {"event": "box.came"}, payload))
    heavy.app.scheduler.emit(CALLER, "box.came", {"size": 3})
    heavy.tick()
    heavy.tick()
    (run,) = heavy.store.runs(RunQuery()).items
    result = json.loads(heavy.run_ended(run.id).result or "")
    assert (result["event"], result["gift"]) == ({"size": 3}, 3)


@pytest.mark.parametrize("task", ["stumble", "give_up", "send"])
def test_a_failure_looks_as_if_the_task_had_run_here(heavy: Tracked, task: str) -> None:
    failed = heavy.ended(handed_over(heavy, task, max_attempts=1))
    with pytest.raises((ValueError, PermanentError, RuntimeError)) as raised:
        getattr(cluster_tasks, task)(*(() if task != "send" else (_silent(),)))
    here = outcome_of(raised.value)
    assert isinstance(here, Failed) and failed.error == here.error
    assert failed.status == RunStatus.FAILED
    trace = heavy.store.traceback(failed.id) or ""
    assert f"in {task}" in trace and "cluster_tasks.py" in trace and "process_child" not in trace


def _silent() -> Any:
    from duetime.kinds.jobs.remote import _emit

    class Silent:
        emit = staticmethod(_emit)

    return Silent()


def test_an_error_is_stored_without_the_credentials_of_its_arguments(heavy: Tracked) -> None:
    token = "token=hunter2-hunter2"
    failed = heavy.ended(handed_over(heavy, "stumble", token, max_attempts=1))
    assert "no water" in (failed.error or "") and "hunter2" not in (failed.error or "")
    assert "hunter2" not in (heavy.store.traceback(failed.id) or "")


def test_retries_are_those_of_the_schedule(heavy: Tracked) -> None:
    schedule = handed_over(heavy, "come_again", 30.0, max_attempts=3)
    eventually(lambda: heavy.tracker.step() and heavy.run_of(schedule).status == RunStatus.PENDING, 20, "it is retried")
    run = heavy.run_of(schedule)
    assert run.error is not None and "the shop is closed" in run.error
    at = heavy.store.starts_at(run)
    assert at is not None and at > heavy.worker.clock.now() + 25 * SECOND
    permanent = heavy.ended(handed_over(heavy, "give_up", max_attempts=5, name="never"))
    assert (permanent.status, permanent.attempt) == (RunStatus.FAILED, 1)


# -- what the cluster lost, what nobody wants, what took too long -------------------------------------------------


def test_what_the_cluster_forgot_is_submitted_again(heavy: Tracked, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    schedule = handed_over(heavy, "wait_for", str(gate))
    (key,) = heavy.cluster.calls
    heavy.cluster.calls.clear()
    gate.touch()
    assert heavy.ended(schedule).status == RunStatus.COMPLETED
    assert heavy.cluster.submitted == [key, key]


def test_a_restarted_worker_adopts_what_is_out(heavy: Tracked, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    schedule = handed_over(heavy, "wait_for", str(gate))
    heavy.tracker = heavy.another_tracker()
    gate.touch()
    assert heavy.ended(schedule).attempt == 1
    assert len(heavy.cluster.submitted) == 1


def test_what_nobody_wants_any_more_is_cancelled_there(heavy: Tracked, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    schedules = [handed_over(heavy, "wait_for", str(gate), name=f"n{number}") for number in range(3)]
    assert len(heavy.cluster.calls) == 3
    scheduler = heavy.app.scheduler
    scheduler.cancel(CALLER, schedules[0].definition.public_id)
    scheduler.cancel_run(CALLER, heavy.run_of(schedules[1]).id)
    heavy.tracker.step()
    (left,) = heavy.cluster.calls
    assert f"-{heavy.run_of(schedules[2]).id}-" in left
    gate.touch()
    assert heavy.ended(schedules[2]).status == RunStatus.COMPLETED
    assert [heavy.run_of(each).status for each in schedules[:2]] == [RunStatus.CANCELLED] * 2


def test_a_timeout_counts_as_an_attempt_and_names_the_cluster(heavy: Tracked, tmp_path: Path) -> None:
    schedule = handed_over(
        heavy, "wait_for", str(tmp_path / "gate"), timeout=3 * SECOND, max_attempts=2, backoff=SECOND
    )
    (first,) = heavy.cluster.calls
    eventually(lambda: heavy.ticked(schedule).attempt == 2, 20, "it is tried again")
    (attempt,) = heavy.store.attempts(heavy.run_of(schedule).id)
    assert attempt.error == "timed out after 3 s on cluster"
    heavy.tracker.step()
    assert first not in heavy.cluster.calls and len(heavy.cluster.calls) == 1
    (tmp_path / "gate").touch()
    assert heavy.ended(schedule).status == RunStatus.COMPLETED


def test_a_late_answer_to_a_run_that_was_given_up_is_not_recorded(heavy: Tracked, tmp_path: Path) -> None:
    """Two trackers at the same time: the fence decides which answer counts."""
    gate = tmp_path / "gate"
    schedule = handed_over(heavy, "wait_for", str(gate))
    run = heavy.run_of(schedule)
    other = heavy.another_tracker()
    heavy.app.scheduler.cancel_run(CALLER, run.id)
    other._record([(run, Failed("late"))])
    assert heavy.run_of(schedule).error == "cancelled"
    gate.touch()


# -- what people see ----------------------------------------------------------------------------------------------


def test_the_command_line_shows_a_run_as_running_on_its_cluster(cli: Cli, tmp_path: Path) -> None:
    with tracked(str(tmp_path / "my.db")) as heavy:
        schedule = handed_over(heavy, "wait_for", str(tmp_path / "gate"))
        run = heavy.run_of(schedule)
        listed, shown = cli("runs", "list").out, cli("runs", "show", str(run.id)).out
        before, status = cli("history", schedule.definition.public_id).out, cli("status", "--db", "my.db").out
        (tmp_path / "gate").touch()
    assert re.search(r"running .* heavy +on cluster", listed)
    assert re.search(r"status +running", shown)
    assert re.search(r"running .* on cluster", before)
    since = clock_local(run.started or run.due, "UTC")
    assert f"cluster (local), 8 workers, 1 run out, the oldest since {since}" in status


def test_the_dashboard_shows_clusters_that_work_and_those_that_do_not(tmp_path: Path) -> None:
    executors = {"cluster": ExecutorSettings("dask", "tcp://one:1"), "gone": ExecutorSettings("ray", "ray://two:2")}
    with site(tmp_path, executors=executors) as there:
        now = there.room.clock.now()
        there.room.store.note_executor(ExecutorRow("cluster", "dask", 2, None, now))
        there.room.store.note_executor(ExecutorRow("gone", "ray", None, "nobody answers", now))
        text = signed_in(there).text("/")
        assert "alive cluster dask · 2 workers · 0 runs out" in text
        assert "away gone ray · 0 runs out nobody answers" in text


def test_the_page_of_a_run_says_where_it_is_and_promises_no_log(tmp_path: Path) -> None:
    gate, db = tmp_path / "gate", str(tmp_path / "my.db")
    with tracked(db) as heavy, site(tmp_path, db=db) as there:
        page = f"/runs/{heavy.run_of(handed_over(heavy, 'wait_for', str(gate))).id}"
        out = signed_in(there).text(page)
        heavy.cluster.is_away = True
        for _ in range(2):
            heavy.tracker.step()
        held = signed_in(there).text(page)
        heavy.cluster.is_away = False
        gate.touch()
    assert "running on cluster" in out and "Nothing written" not in out
    assert "waiting held" in held and "Held until its cluster answers" in held and "for an agent" not in held


# -- a cluster that is away ----------------------------------------------------------------------------------------


def test_a_cluster_that_is_away_holds_its_runs_and_counts_no_attempt(heavy: Tracked, tmp_path: Path) -> None:
    gate, call = tmp_path / "gate", heavy.app.call
    schedule = handed_over(heavy, "wait_for", str(gate), timeout=SECOND, max_attempts=1)
    heavy.cluster.is_away = True
    steps = [heavy.tracker.step() for _ in range(3)]
    assert steps == sorted(steps) and steps[-1] > steps[0]
    run = heavy.run_of(schedule)
    assert run.error is not None and run.error.startswith("held: cluster cannot be reached: ConnectionError: nobody")
    assert "hunter2" not in run.error
    assert (run.attempt, run.until, heavy.store.starts_at(run)) == (1, None, None)
    view = heavy.view(schedule)
    assert (view["status"], view["state_detail"]) == ("waiting", "held")
    (problem,) = attention(call, ListAttention()).value.items
    assert (problem["trouble"], problem["id"]) == (Trouble.HELD, schedule.definition.public_id)
    assert "Start the cluster again" in problem["next_step"]
    (row,) = executors(call)
    assert not row["can_start"] and "nobody answers" in row["missing"] and "hunter2" not in row["missing"]
    late = ShiftedClock(60)  # long after its timeout
    heavy.worker.clock.now = late.now  # type: ignore[method-assign]
    heavy.tick()
    assert heavy.run_of(schedule).status == RunStatus.WAITING
    heavy.cluster.is_away = False
    heavy.tracker.step()
    run = heavy.run_of(schedule)
    assert run.error is None and run.until is not None and run.started is not None
    assert run.until == run.started + SECOND
    gate.touch()
    done = heavy.ended(schedule)
    assert (done.status, done.attempt) == (RunStatus.COMPLETED, 1)
    heavy.store.tell_incidents(late.now())
    assert attention(call, ListAttention()).value.items == []


def test_a_moment_without_the_cluster_holds_nothing(heavy: Tracked, tmp_path: Path) -> None:
    schedule = handed_over(heavy, "wait_for", str(tmp_path / "gate"))
    heavy.cluster.is_away = True
    heavy.tracker.step()
    heavy.cluster.is_away = False
    heavy.tracker.step()
    assert heavy.run_of(schedule).error is None
    assert len(heavy.cluster.submitted) == 1
    (tmp_path / "gate").touch()
    heavy.ended(schedule)


def test_a_package_that_is_missing_is_named(url: str) -> None:
    with tracked(url, path=f"{UninstalledCluster.__module__}:{UninstalledCluster.__name__}") as heavy:
        heavy.create("later", 1)
        heavy.tick()
        heavy.tracker.step()
        heavy.tracker.step()
        (row,) = executors(heavy.app.call)
        assert row["out"] == 1 and row["oldest"] is not None
        assert "run: pip install 'duetime[rivers]'" in row["missing"]


# -- several stores, workers and owners ---------------------------------------------------------------------------


def test_one_living_worker_tracks(heavy: Tracked, tmp_path: Path) -> None:
    heavy.worker.register()
    other = heavy.another_worker()
    other.register()
    heavy.store._forget_workers()  # type: ignore[attr-defined]
    follower = heavy.another_tracker(other)
    assert follower.step() == 1.0 and heavy.cluster.connections == 0
    heavy.tracker.step()
    assert heavy.cluster.connections == 1
    silent = ShiftedClock(8)  # more than half a lease after the heartbeats of both
    other.clock.now = silent.now  # type: ignore[method-assign]
    follower.step()
    assert heavy.cluster.connections == 2  # two at once do no harm


def test_owners_take_turns_within_the_limit(url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with tracked(url, limit=3) as heavy:
        schedules = [heavy.create("wait_for", str(gate), owner="ann", name=f"a{number}") for number in range(4)]
        schedules += [heavy.create("wait_for", str(gate), owner="bob", name="b")]
        heavy.tick()
        heavy.tracker.step()
        runs = {heavy.run_of(each).id: each.definition.owner for each in schedules}
        owners = [runs[int(key.split("-")[2])] for key in heavy.cluster.submitted]  # type: ignore[index]
        assert sorted(owners) == ["ann", "ann", "bob"]
        heavy.tracker.step()
        assert len(heavy.cluster.submitted) == 3
        gate.touch()
        for each in schedules:
            heavy.ended(each)
        assert len(heavy.cluster.submitted) == 5


def test_many_ends_are_recorded_in_parts(url: str) -> None:
    with tracked(url) as heavy:
        number = BATCH + 5
        for each in range(number):
            heavy.create("later", each, name=f"n{each}")
        heavy.tick()
        heavy.tracker.step()

        def completed() -> bool:
            heavy.tracker.step()
            return heavy.store.run_counts(RunQuery(count_to=1000)) == {"completed": number}

        eventually(completed, 30, "all are recorded")
        assert len(heavy.cluster.submitted) == number


# -- what is refused ----------------------------------------------------------------------------------------------


def test_what_an_executor_cannot_promise_is_refused(heavy: Tracked) -> None:
    with pytest.raises(InvalidInput, match="at_most_once: cluster runs a call again if one of its machines dies"):
        heavy.create("later", 1, at_most_once=True)
    for task in ("later(1) | here", "here(1) | later", "here() and later(1)"):
        with pytest.raises(InvalidInput, match="later runs on cluster, so it is no step"):
            heavy.create(task)
    with pytest.raises(InvalidInput, match=r"only_if: .*later runs on cluster"):
        heavy.create("here", only_if="later(1)")
    with pytest.raises(InvalidInput, match=r"only_if: .*later runs on cluster"):
        heavy.create("here", only_if="later")


def test_a_cluster_that_loses_calls_needs_a_timeout(url: str) -> None:
    with tracked(url, path=FORGETFUL) as heavy:
        with pytest.raises(InvalidInput, match="timeout: local can lose a call without a trace"):
            heavy.create("later", 1)
        assert heavy.ended(heavy.create("later", 1, timeout=60 * SECOND)).result == "2"


def test_a_task_that_a_cluster_cannot_import_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text("from duetime import task\n\n@task(runs_on='cluster')\ndef crunch():\n    pass\n")
    with pytest.raises(TaskModuleError, match="crunch: cluster cannot import it from a file; put it into a module"):
        load([str(file)])
    registry = Registry()
    with pytest.raises(InvalidTask, match="with runs_on it must be a function at the top of a module"):
        registry.task(runs_on="cluster", name="nothing")(lambda: None)
    with pytest.raises(InvalidTask, match="leave isolation and needs out"):
        registry.task(runs_on="cluster", isolation="process")(cluster_tasks.stumble)


def test_a_worker_without_the_executor_leaves_the_run_to_others() -> None:
    outcome = JobKind(cluster_tasks.registry).execute(make_work("later", 1))
    assert isinstance(outcome, Returned)
    assert outcome.reason is not None and "[executors.cluster]" in outcome.reason


def test_a_create_warns_if_no_worker_knows_the_executor(heavy: Tracked) -> None:
    services, store = heavy.app.services, heavy.store
    schedule = heavy.create("later", 1)
    known = JobKind(cluster_tasks.registry).known_work()
    assert known == ["here"]
    store.register("elsewhere", ["job", *(work_entry("job", each) for each in known)], False, heavy.worker.clock.now())
    assert "no_worker_for_task" in {each.code for each in services.schedule_warnings(schedule)}
    heavy.worker.register()
    assert "no_worker_for_task" not in {each.code for each in services.schedule_warnings(schedule)}


# -- for people ---------------------------------------------------------------------------------------------------


def test_status_shows_the_executor_to_the_operator_alone(heavy: Tracked, tmp_path: Path) -> None:
    schedule = handed_over(heavy, "wait_for", str(tmp_path / "gate"))
    call = heavy.app.call
    (row,) = status(call).value["executors"]
    assert (row["name"], row["type"], row["workers"], row["out"], row["can_start"]) == (NAME, "local", 8, 1, True)
    assert row["oldest"] is not None
    stranger = local_call(heavy.app.services, "mcp")._replace(caller=Caller("ann"))
    assert "executors" not in status(stranger).value
    (tmp_path / "gate").touch()
    heavy.ended(schedule)


def test_an_executor_that_nobody_tracks_says_so(heavy: Tracked) -> None:
    (row,) = executors(heavy.app.call)
    assert not row["can_start"] and "no worker that is running tracks it" in row["missing"]
    heavy.store.note_executor(ExecutorRow("gone", "dask", 2, None, Instant(1)))
    assert [each["name"] for each in executors(heavy.app.call)] == [NAME]


def test_a_thread_of_the_worker_tracks(heavy: Tracked) -> None:
    """As users have it: no step is called by hand."""
    engine = heavy.app.engine()
    engine.start()
    try:
        schedule = heavy.create("later", 1)

        def done() -> Run | None:
            runs = heavy.store.runs(RunQuery(schedule=schedule.definition.id)).items
            return runs[0] if runs and runs[0].finished is not None else None

        ended = eventually(done, 20, "the run ended")
        assert ended is not None and ended.result == "2"
    finally:
        engine.stop(5)


def test_nothing_of_a_cluster_is_imported_unless_it_is_configured() -> None:
    modules = ", ".join(path.partition(":")[0] for path in types_of_executors().values())
    code = f"import sys, duetime.app, {modules}\n"
    code += "print([each for each in ('distributed', 'dask', 'celery', 'redis', 'ray') if each in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
