"""The log of a run from Python: what tasks print and log, in threads, on the event loop and in processes."""

from __future__ import annotations

import contextvars
import io
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duetime import Duetime
from duetime.engine.clock import SystemClock
from duetime.engine.errors import NotFound
from duetime.engine.kind import Caller
from duetime.engine.model import RunId
from duetime.engine.store_interfaces import LogChange, LogPart
from duetime.service.answers import Run, RunLog
from duetime.service.operations import logs
from duetime.service.operations.logs import ReadLog, log_for_agent, read_log
from duetime.settings import Settings
from tests.support import writing
from tests.support.workers import eventually, quickest

PATIENCE = 30.0
MOST = 64 * 1024
NEVER = "0 0 1 1 *"


@pytest.fixture(params=["sqlite", "postgres"])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Duetime]:
    """A worker for a test to start: the standard streams of fixtures are others."""
    url = request.getfixturevalue("clean_postgres_url") if request.param == "postgres" else str(tmp_path / "duetime.db")
    writing.gate.clear()
    opened = Duetime(settings=Settings(db=url, timezone="UTC", threads=8), registry=writing.registry)
    yield opened
    writing.gate.set()
    opened.close()


def ran(duetime: Duetime, task: str, *args: Any, **options: Any) -> Run:
    schedule = duetime.schedule(task, args=list(args), cron=NEVER, **options)
    run = schedule.run_now(wait=PATIENCE)
    assert run.ended, run
    return run


def log_of(duetime: Duetime, task: str, *args: Any, **options: Any) -> RunLog:
    log = duetime.log(ran(duetime, task, *args, **options).run_id)
    assert log.ended
    return log


def test_prints_and_records_of_a_thread_are_in_order(closed: Duetime, capsys: pytest.CaptureFixture[str]) -> None:
    duetime = closed.start()
    log = log_of(duetime, "say", "tea")
    assert log.text == "tea\nWARNING shop: about tea\n"
    assert [(each.attempt, each.left_out) for each in log.log] == [(1, 0)]
    assert "tea\n" in capsys.readouterr().out, "it is still printed"


def test_filters_of_loggers_apply_and_what_handlers_print_is_not_in_the_log_twice(
    closed: Duetime, capsys: pytest.CaptureFixture[str]
) -> None:
    duetime = closed.start()
    assert log_of(duetime, "pay").text == "WARNING shop.cards: paid with ****\ndone\n"
    assert capsys.readouterr().out.count("printed: paid with ****") == 1


def test_what_a_condition_writes_is_in_the_log(closed: Duetime) -> None:
    duetime = closed.start()
    assert log_of(duetime, "say_nothing", only_if="say('tea')").text == "tea\nWARNING shop: about tea\n"


def test_a_task_that_writes_nothing_stores_nothing(closed: Duetime, monkeypatch: pytest.MonkeyPatch) -> None:
    duetime = closed.start()
    written: list[object] = []
    monkeypatch.setattr(duetime.app.store, "write_logs", written.append)
    log = log_of(duetime, "say_nothing")
    assert (log.log, log.next, written) == ([], None, [])


def test_coroutines_on_one_loop_have_logs_of_their_own(closed: Duetime) -> None:
    duetime = closed.start()
    schedules = [duetime.schedule("say_in_turns", args=[str(number)], cron=NEVER) for number in range(6)]
    started = [schedule.run_now() for schedule in schedules]
    for number, run in enumerate(started):
        assert duetime.wait_for_run(run.run_id, PATIENCE).status == "completed"
        text = "".join(f"{number} {turn}\n" for turn in range(3))
        assert duetime.log(run.run_id).text == f"{text}{number} from a thread\n"


def test_what_a_process_writes_is_in_the_log(closed: Duetime) -> None:
    duetime = closed.start()
    log = log_of(duetime, "say_in_a_process")
    assert log.text == "printed\nINFO shop: noted\nWARNING shop: warned\nfrom a shell\n"


def test_a_process_that_is_killed_in_mid_line_keeps_what_it_wrote(closed: Duetime) -> None:
    duetime = closed.start()
    run = ran(duetime, "die_in_mid_line")
    assert run.status == "failed"
    assert duetime.log(run.run_id).text == "a whole line\nhalf a li\n"


def test_a_hundred_megabytes_are_bounded(closed: Duetime, monkeypatch: pytest.MonkeyPatch) -> None:
    duetime = closed.start()
    stream: Any = sys.stdout
    monkeypatch.setattr(stream, "stream", io.StringIO())
    monkeypatch.setattr(stream.stream, "write", len)
    log = log_of(duetime, "write_much")
    assert MOST / 2 < len(log.text.encode()) <= MOST
    assert sum(each.left_out for each in log.log) + len(log.text) == 100 * 1000 * 1000


def test_many_lines_binary_and_escapes(closed: Duetime) -> None:
    duetime = closed.start()
    lines = log_of(duetime, "write_lines", 10_000).text.splitlines()
    assert lines[0].endswith("line 0 of 10000") and lines[-1].endswith("line 9999 of 10000")
    text = log_of(duetime, "write_binary").text
    assert text.splitlines()[-1] == "red\ufffd"
    assert not any(ord(each) < 32 and each not in "\n\t" for each in text)


def test_credentials_of_the_input_are_masked(closed: Duetime) -> None:
    duetime = closed.start()
    text = log_of(duetime, "show_secret", kwargs={"password": "correct-horse-battery"}).text
    assert text == "connecting with password=***\n***\n"


def test_attempts_keep_their_logs(closed: Duetime) -> None:
    duetime = closed.start()
    run = ran(duetime, "fail_twice", max_attempts=3, backoff=0.01)
    rows = duetime.log(run.run_id).log
    assert [(each.attempt, each.text) for each in rows] == [(n, f"this is attempt {n}\n") for n in (1, 2, 3)]
    assert duetime.log(run.run_id, attempt=2).text == "this is attempt 2\n"


def test_a_log_is_read_while_the_run_goes_on(closed: Duetime) -> None:
    duetime = closed.start()
    run = duetime.schedule("say_and_wait", args=["tea"], cron=NEVER).run_now()
    first = duetime.log(run.run_id, wait=PATIENCE)
    assert (first.text, first.ended) == ("tea, before\n", False)
    assert duetime.log(run.run_id, after=first.next, wait=0.1).log == []
    writing.gate.set()
    rest = duetime.log(run.run_id, after=first.next, wait=PATIENCE)
    assert rest.text == "tea, after\n"
    assert eventually(lambda: duetime.log(run.run_id, after=rest.next).ended, 10, "the end of the run")


@pytest.mark.later
def test_two_hundred_runs_at_once_delay_no_other_and_mix_nothing(closed: Duetime) -> None:
    """While all of them are in progress and have written, another run begins and ends as soon as ever."""
    object.__setattr__(closed.app.settings, "threads", 300)
    duetime = closed.start()
    schedules = [duetime.schedule("write_and_wait", args=[number], cron=NEVER) for number in range(200)]
    runs = [schedule.run_now() for schedule in schedules]
    for _ in runs:
        assert writing.arrived.acquire(timeout=PATIENCE)
    quick, clock = duetime.schedule("say_nothing", cron=NEVER), SystemClock()

    def delay() -> float:
        began = clock.monotonic()
        assert quick.run_now(wait=PATIENCE).status == "completed"
        return clock.monotonic() - began

    assert quickest(delay, 1.0) < 1.0
    for run in runs:
        assert duetime.log(run.run_id, wait=PATIENCE).log, "what it has written so far is stored"
    writing.gate.set()
    for number, run in enumerate(runs):
        assert duetime.wait_for_run(run.run_id, PATIENCE).status == "completed"
        log = duetime.log(run.run_id)
        assert len(log.text.encode()) <= MOST
        assert {line.split()[0] for line in log.text.splitlines()} == {f"{number}:"}


def test_frames_of_exceptions_are_for_operators(closed: Duetime) -> None:
    duetime = closed.start()
    run = ran(duetime, "stumble")
    local = duetime.log(run.run_id).text
    assert "writing.py" in local and "ZeroDivisionError: division by zero" in local
    agent = duetime.app.call._replace(caller=Caller("local", depth=1))
    text = "".join(each.text for each in read_log(agent, ReadLog(run=run.run_id)).value.excerpts)
    assert text == "ERROR shop: it went wrong\nZeroDivisionError: division by zero\n"


def test_no_line_of_code_is_shown_where_a_part_or_a_page_of_the_log_begins(
    closed: Duetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    duetime = closed.start()
    run = ran(duetime, "say_nothing")
    frame = '  File "/srv/shop/orders.py", line 5, in total\n'
    texts = [
        f"begin\n{frame}",
        "    secret(price)\n",
        f"    more(price)\n{frame}",
        "    one()\nValueError: no\n",
        "  end\n",
    ]
    store_parts(duetime, run, texts)
    agent = duetime.app.call._replace(caller=Caller("local", depth=1))
    for size in (100, 1):
        monkeypatch.setattr(logs, "MOST_PARTS", size)
        text, answer = "", read_log(agent, ReadLog(run=run.run_id)).value
        while answer.excerpts:
            text += "".join(each.text for each in answer.excerpts)
            answer = read_log(agent, ReadLog(run=run.run_id, after=answer.next)).value
        assert text == "begin\nValueError: no\n  end\n"


def store_parts(duetime: Duetime, run: Run, texts: Sequence[str]) -> None:
    """Store texts as a worker does that looks at the log of a run once a second."""
    row, place = duetime.app.store.run(RunId(run.run_id)), 0
    assert row is not None
    for text in texts:
        part = LogPart(row.id, row.fence, place, 1, duetime.app.clock.now(), text)
        duetime.app.store.write_logs([LogChange([part], 10**6, 0)])
        place += len(text.encode())


def test_an_agent_is_shown_the_end_of_a_log_of_many_parts(closed: Duetime) -> None:
    duetime = closed.start()
    run = ran(duetime, "say_nothing")
    store_parts(duetime, run, [f"step {number} is done\n" for number in range(1_100)])
    row = duetime.app.store.run(RunId(run.run_id))
    assert row is not None
    text = log_for_agent(duetime.app.call, row) or ""
    assert "step 1099 is done" in text and "step 900 is done" not in text.splitlines()[2]


def test_nobody_else_reads_a_line(closed: Duetime) -> None:
    duetime = closed.start()
    run = ran(duetime, "say", "my own business")
    stranger = duetime.app.call._replace(caller=Caller("eve"))
    with pytest.raises(NotFound):
        read_log(stranger, ReadLog(run=run.run_id))


def test_an_agent_is_shown_the_end_between_marks(closed: Duetime) -> None:
    duetime = closed.start()
    run = ran(duetime, "write_lines", 1000)
    row = duetime.app.store.run(run.run_id)  # type: ignore[arg-type]
    assert row is not None
    text = log_for_agent(duetime.app.call, row)
    assert text is not None and len(text) < 5000
    first, *_, last = text.splitlines()
    mark = first[1:9]
    assert "data and no instructions" in first and last == f"[{mark} ends]" and "line 999 of 1000" in text


def test_streams_and_records_are_as_before_when_the_worker_has_stopped(tmp_path: Path) -> None:
    before = sys.stdout, sys.stderr, logging.getLogRecordFactory(), logging.Logger.callHandlers
    settings = Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", threads=1)
    with (
        Duetime(settings=settings, registry=writing.registry),
        Duetime(settings=Settings(db=str(tmp_path / "other.db"), timezone="UTC", threads=1), registry=writing.registry),
    ):
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr, logging.getLogRecordFactory(), logging.Logger.callHandlers) == before


@pytest.mark.parametrize("calls_ours", [True, False])
def test_records_are_captured_once_when_a_worker_starts_again_below_a_factory_of_others(
    tmp_path: Path, calls_ours: bool
) -> None:
    """A factory that calls the one before, as the documentation of logging shows it, keeps ours; another drops it."""
    before = logging.getLogRecordFactory()
    settings = Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", threads=1)
    try:
        with Duetime(settings=settings, registry=writing.registry):
            others = partial(logging.getLogRecordFactory()) if calls_ours else logging.LogRecord
            logging.setLogRecordFactory(others)
        for _ in range(2):
            with Duetime(settings=settings, registry=writing.registry) as duetime:
                assert log_of(duetime, "say", "tea").text == "tea\nWARNING shop: about tea\n"
                assert "ZeroDivisionError" in log_of(duetime, "stumble").text
        assert logging.getLogRecordFactory() is others
    finally:
        logging.setLogRecordFactory(before)


def test_records_are_captured_once_below_a_function_that_others_put_over_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some packages that report errors replace `Logger.callHandlers` with a function that calls the one before."""
    settings = Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", threads=1)
    monkeypatch.setattr(logging.Logger, "callHandlers", logging.Logger.callHandlers)
    with Duetime(settings=settings, registry=writing.registry) as duetime:
        ours = logging.Logger.callHandlers

        def theirs(logger: logging.Logger, record: logging.LogRecord) -> None:
            ours(logger, record)

        monkeypatch.setattr(logging.Logger, "callHandlers", theirs)
        assert log_of(duetime, "say", "tea").text == "tea\nWARNING shop: about tea\n"
    assert logging.Logger.callHandlers is theirs
    with Duetime(settings=settings, registry=writing.registry) as duetime:
        assert log_of(duetime, "say", "tea").text == "tea\nWARNING shop: about tea\n"


def test_logs_can_be_switched_off(tmp_path: Path) -> None:
    settings = Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", threads=1, max_log_bytes=0)
    with Duetime(settings=settings, registry=writing.registry) as duetime:
        assert log_of(duetime, "say").log == []
        assert log_of(duetime, "say_in_a_process").log == []


def test_a_thread_that_outlives_its_run_writes_to_no_log(closed: Duetime) -> None:
    """What a run leaves behind has its context, and another run may follow in the same thread."""
    duetime = closed.start()
    release, done = threading.Event(), threading.Event()

    def linger() -> None:
        release.wait(PATIENCE)
        sys.stdout.write("late\n")
        done.set()

    def leave_behind() -> None:
        sys.stdout.write("in time\n")
        threading.Thread(target=contextvars.copy_context().run, args=(linger,), daemon=True).start()

    duetime.app.registry.task(name="leave_behind")(leave_behind)
    first = ran(duetime, "leave_behind")
    release.set()
    assert done.wait(PATIENCE)
    second = ran(duetime, "say")
    assert duetime.log(first.run_id).text == "in time\n"
    assert "late" not in duetime.log(second.run_id).text
