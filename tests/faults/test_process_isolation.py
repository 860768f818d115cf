"""A task in a process of its own: whatever it does, it harms itself only, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import SystemClock
from duetime.engine.kind import StopReason, StopSignal
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry
from duetime.engine.worker.lease import Lease
from duetime.kinds.jobs.builtin import TASKS
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.loading import load_file
from duetime.kinds.jobs.registry import Registry, Task
from duetime.kinds.jobs.runners import CHILD, _request
from duetime.processes import child, supervisor
from duetime.processes.child import ProcessSpec
from duetime.processes.supervisor import ChildLease, GuardedCall, GuardedCommand
from tests.support import isolated
from tests.support.jobs import make_work
from tests.support.programs import LeaseFrom, assert_gone, open_descriptors, told
from tests.support.wordings import STOPPED

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kind() -> Iterator[JobKind]:
    kind = JobKind(isolated.registry, grace=0.3)
    yield kind
    kind.close()


class Background:
    """A run in a thread, as in a worker's pool."""

    def __init__(self, kind: JobKind, task: str, *args: Any) -> None:
        self.stop = StopSignal()
        work = make_work(task, *args, stop=self.stop, policy='{"timeout": 1500000}')
        self._outcomes: list[Outcome] = []
        self._thread = threading.Thread(target=lambda: self._outcomes.append(kind.execute(work)))
        self._thread.start()

    def outcome(self) -> Outcome:
        self._thread.join(30)
        return self._outcomes[0]


def test_results_come_back(kind: JobKind) -> None:
    assert kind.execute(make_work("add", 2, b=3)) == Completed("5")
    assert kind.execute(make_work("soon", "now")) == Completed('"now"')
    assert kind.execute(make_work("add(1) | add(2) | add(3)")) == Completed("7")


def test_it_knows_its_run_and_stands_alone(kind: JobKind) -> None:
    reports: list[str] = []
    work = make_work("whoami", report=reports.append, extra=1)
    outcome = kind.execute(work)
    assert isinstance(outcome, Completed) and outcome.result is not None
    for part in ('"leader":true', '"run":41', '"attempt":2', '"owner":"ann"', '"stdin":""', '"more":{"extra":1}'):
        assert part in outcome.result
    assert reports == ["half way"]


@pytest.mark.parametrize(
    ("task", "args", "outcome"),
    [
        ("segfault", [], Failed("its process was ended by SIGSEGV")),
        ("leave", [3], Failed("its process ended without a result, with exit code 3")),
        ("leave", [0], Failed("its process ended without a result, with exit code 0")),
        ("say_and_exit", [4], Failed("SystemExit: 4")),
        ("fail", ["plain"], Failed("ValueError: bad\ufffdvalue")),
        ("fail", ["permanent"], Failed("PermanentError: no use", permanent=True)),
        ("fail", ["later"], Retry("RetryLater: busy", after=90_000_000)),
        ("close_everything", [], Failed("its process closed the way back to us")),
    ],
)
def test_only_the_child_goes_down(kind: JobKind, task: str, args: list[Any], outcome: Outcome) -> None:
    assert kind.execute(make_work(task, *args)) == outcome


def test_the_trace_reaches_the_operator(kind: JobKind, caplog: pytest.LogCaptureFixture) -> None:
    kind.execute(make_work("fail", "plain"))
    assert "Traceback" in caplog.text and "ValueError: bad" in caplog.text


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.TIMEOUT, Failed("timed out after 1.5 s")),
        (StopReason.LEASE, Failed(STOPPED[StopReason.LEASE])),
        (StopReason.SHUTDOWN, Failed(STOPPED[StopReason.SHUTDOWN])),
        (StopReason.CANCELLED, Cancelled(STOPPED[StopReason.CANCELLED])),
    ],
)
def test_a_hanging_task_is_killed_with_its_offspring(
    kind: JobKind, tmp_path: Path, reason: StopReason, outcome: Outcome
) -> None:
    run = Background(kind, "hang", str(tmp_path / "told"))
    pids = told(tmp_path / "told")
    assert len(pids) == 2
    run.stop.set(reason)
    assert run.outcome() == outcome
    for pid in pids:
        assert_gone(pid)


def test_a_cancelled_task_may_tidy_up(tmp_path: Path) -> None:
    kind = JobKind(isolated.registry, grace=20)
    run = Background(kind, "wait_for_cancel", str(tmp_path / "told"))
    told(tmp_path / "told")
    run.stop.set(StopReason.CANCELLED)
    assert run.outcome() == Completed('"tidied up"')


def test_closing_kills(kind: JobKind, tmp_path: Path) -> None:
    run = Background(kind, "hang", str(tmp_path / "told"))
    pids = told(tmp_path / "told")
    kind.close()
    assert run.outcome() == Failed("the worker stopped before it was done")
    for pid in pids:
        assert_gone(pid)


def test_nothing_stays_behind_a_finished_task(kind: JobKind, tmp_path: Path) -> None:
    assert kind.execute(make_work("leave_offspring", str(tmp_path / "told"))) == Completed('"done"')
    for pid in told(tmp_path / "told"):
        assert_gone(pid)


@pytest.mark.parametrize("descriptor", ["pidfd", "none"])
def test_a_group_is_killed_before_the_number_of_its_leader_can_be_anybody_elses(
    kind: JobKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descriptor: str
) -> None:
    if descriptor == "none":
        monkeypatch.setattr(child, "_exit_descriptor", lambda process: None)
    killed: list[tuple[bool, int]] = []
    killpg = os.killpg

    def kill(group: int, number: int) -> None:
        killed.append((Path(f"/proc/{group}").exists(), number))
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", kill)
    assert kind.execute(make_work("leave_offspring", str(tmp_path / "told"))) == Completed('"done"')
    assert killed == [(True, signal.SIGKILL)]
    for pid in told(tmp_path / "told"):
        assert_gone(pid)


def test_output_is_no_answer(kind: JobKind) -> None:
    assert kind.execute(make_work("flood", 5)) == Completed('"survived"')


def test_much_progress(kind: JobKind) -> None:
    reports: list[str] = []
    assert kind.execute(make_work("chatter", 5000, report=reports.append)) == Completed("5000")
    assert reports[-1] == "step 4999"


def test_large_values(kind: JobKind) -> None:
    cut = kind.execute(make_work("big", 1_000_000))
    assert isinstance(cut, Completed) and cut.result is not None
    assert cut.result.startswith('{"cut":true') and len(cut.result) <= 65536
    assert kind.execute(make_work("big(1000000) | size_of")) == Completed("1000000")
    too_large = kind.execute(make_work("big(5000000) | size_of"))
    assert too_large == Failed("big: its result is too large to be passed on", permanent=True)


PARENT = """
import sys
from duetime.kinds.jobs.kind import JobKind
from tests.support.isolated import registry
from tests.support.jobs import make_work
JobKind(registry, patience=float(sys.argv[1])).execute(make_work(sys.argv[2], sys.argv[3]))
"""


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def start_parent(patience: float, task: str, told_at: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PARENT, str(patience), task, str(told_at)]
    return subprocess.Popen(command, cwd=ROOT, env=environment())


@pytest.mark.parametrize("task", ["hang", "hog"])
def test_a_child_does_not_outlive_its_parent(tmp_path: Path, task: str) -> None:
    if task == "hog" and sys.platform != "linux":
        pytest.skip("only Linux can kill what never lets its watcher run")
    parent = start_parent(30, task, tmp_path / "told")
    pids = told(tmp_path / "told")
    parent.send_signal(signal.SIGKILL)
    parent.wait(30)
    for pid in pids:
        assert_gone(pid)


def test_a_child_ends_when_its_parent_is_not_heard_of(tmp_path: Path) -> None:
    """A stopped process keeps its pipes open, while others may take its runs over."""
    parent = start_parent(2.0, "hang", tmp_path / "told")
    pids = told(tmp_path / "told")
    try:
        parent.send_signal(signal.SIGSTOP)
        for pid in pids:
            assert_gone(pid)
    finally:
        parent.kill()
        parent.wait(30)


def test_a_child_that_starts_late_hears_of_later_deadlines_first() -> None:
    """On a busy machine a process may take longer to start than the first deadline allows."""
    task = isolated.registry.get("add")
    assert task is not None
    work, now = make_work("add"), SystemClock().boottime()
    asked = _request([(task, [2], {"b": 3}, True)], JobKind()._context(work), True, logs=False)
    assert answer_to(asked, now - 0.5, now + 30) == b'{"result": "5"}\n'
    assert answer_to(asked) == b"", "it is too late to begin"


def answer_to(request: bytes, *later: float) -> bytes:
    """From a process whose first deadline has passed when it starts."""
    heard = bytearray()
    process = GuardedCall(CHILD, request, ChildLease(None, patience=-1), heard.extend)
    for deadline in later:
        process.extend(deadline)
    process.wait(30, lambda: process.ended or b"\n" in heard)
    process.close()
    return bytes(heard)


def test_a_child_that_had_to_end_with_the_lease_has_not_failed(kind: JobKind, tmp_path: Path) -> None:
    """Its worker has not let go of it yet: the child is gone a moment before."""
    work = make_work("hang", str(tmp_path / "told"))
    work.lease = LeaseFrom(tmp_path / "told", 2.0)
    assert kind.execute(work) == Failed(STOPPED[StopReason.LEASE])
    assert work.stop.reason is StopReason.LEASE, "so that the run is given back"
    for pid in told(tmp_path / "told"):
        assert_gone(pid)


def test_a_child_that_ended_before_its_worker_went_on_has_not_failed(
    kind: JobKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker stands still beyond the deadline of the child, and its next heartbeat comes before it looks."""
    work = make_work("hang", str(tmp_path / "told"))
    work.lease = lease = Lease(SystemClock(), 4.0)
    stand_still(monkeypatch, tmp_path / "told", lease)
    assert kind.execute(work) == Failed(STOPPED[StopReason.LEASE])
    assert work.stop.reason is StopReason.LEASE


def test_a_command_that_ended_before_its_worker_went_on_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(SystemClock(), 4.0)
    code = f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/told; sleep 600"
    stand_still(monkeypatch, tmp_path / "told", lease)
    process = GuardedCommand(ProcessSpec(("sh", "-c", code)), ChildLease(lease, 30.0), str(tmp_path / "private"))
    try:
        assert process.watch(lambda: None) is None
    finally:
        process.close()
    assert process.expired


def stand_still(monkeypatch: pytest.MonkeyPatch, path: Path, lease: Lease) -> None:
    """Once the child has begun, do nothing until it is gone; then renew the lease, as a heartbeat would."""
    step, clock = child.ChildProcess.step, SystemClock()

    def slow_step(process: child.ChildProcess, timeout: float = child.TICK) -> None:
        if path.exists():
            for pid in told(path):
                assert_gone(pid)
        lease.renew(clock.boottime())
        step(process, timeout)

    monkeypatch.setattr(child.ChildProcess, "step", slow_step)


@pytest.mark.parametrize("sent", [b"", b'{"path": [', b'{"path": []}\n', b'{"path": []}\n[['])
def test_a_child_whose_worker_dies_while_it_starts_says_nothing(sent: bytes) -> None:
    """The pipe with its request closes before the request is complete; the others still close a moment later."""
    control, report, life = os.pipe(), os.pipe(), os.pipe()
    passed = control[0], report[1], life[0]
    command = [sys.executable, "-P", supervisor._GUARD, "call", str(SystemClock().boottime() + 30), *map(str, passed)]
    try:
        done = subprocess.run(
            [*command, CHILD], input=sent, capture_output=True, pass_fds=passed, start_new_session=True, check=False
        )
    finally:
        for descriptor in (*control, *report, *life):
            os.close(descriptor)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, b"", b"")


def test_no_descriptors_are_left_open(kind: JobKind) -> None:
    kind.execute(make_work("add", 1))
    before = open_descriptors()
    for task, args in (("add", [1]), ("segfault", []), ("leave", [1])):
        kind.execute(make_work(task, *args))
    assert open_descriptors() <= before


def test_steps_in_threads_and_processes_mix() -> None:
    kind = JobKind(Registry(TASKS, base=isolated.registry))
    assert kind.execute(make_work("echo('a b c') | shorten(words=1) | size_of")) == Completed("5")


SCRIPT = """
from duetime.kinds.jobs.registry import task

@task(isolation="process")
def double(number: int) -> int:
    return 2 * number

if __name__ == "__main__":
    from duetime.kinds.jobs.kind import JobKind
    from tests.support.jobs import make_work
    print(JobKind().execute(make_work("double", 21)))
"""


def test_a_task_of_the_main_program_is_found(tmp_path: Path) -> None:
    script = tmp_path / "my program.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], env=environment(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Completed(result='42')\n"


UNGUARDED = """
from duetime import Duetime, task

@task(isolation="process")
def double(number: int) -> int:
    return 2 * number

with Duetime("mine.db") as duetime:
    duetime.schedule(double, args=[21], at="now", alert="off").wait(30)
    print(len(duetime.schedules()), duetime.history()[0].error)
"""


def test_a_program_that_is_imported_for_its_task_starts_no_worker(tmp_path: Path) -> None:
    """Otherwise, each process of a task would do all that the program does, and so start further ones."""
    script = tmp_path / "program.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, str(script)], env=environment(), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (
        done.stdout.startswith("1 ") and 'below `if __name__ == "__main__":`, or its tasks into another' in done.stdout
    )


def test_a_task_that_was_typed_in_is_refused_clearly() -> None:
    typed = SCRIPT.replace('__name__ == "__main__"', "True")
    done = subprocess.run(
        [sys.executable, "-c", typed], env=environment(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "double is in no file" in done.stdout and "permanent=True" in done.stdout


def test_a_task_of_a_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "json.py"
    file.write_text("def double(number: int) -> int:\n    return 2 * number\n")
    kind = JobKind(Registry([Task(load_file(str(file)).double, isolation="process")]))
    assert kind.execute(make_work("double", 21)) == Completed("42")
