"""`duetime explain`, `tail` and `top`: what will happen, what happens, and how everything stands."""

from __future__ import annotations

import json
import re
import select
import signal
import threading
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from duetime.api import Duetime
from duetime.app import App, build
from duetime.cli.runs.tail import Stream, Tail
from duetime.cli.runs.top import Actions, _shares, laid_out
from duetime.cli.runs.top_frame import TopRow, frame_of
from duetime.cli.serve.shutdown import Flag, StopButton
from duetime.engine.clock import HOUR, MINUTE, Instant, SystemClock
from duetime.engine.model import Run
from duetime.engine.store import ClaimRequest, RunQuery, ScheduleQuery
from duetime.engine.validation import Changes, NewSchedule
from duetime.service.change_feed import BATCH
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from duetime.terminal.input import DOWN, ENTER
from tests.support.cli import Cli, Output, start
from tests.support.drafts import every
from tests.support.hand import create, history_of
from tests.support.terminal import on_terminal
from tests.support.workers import eventually

EVIL = "evil\x1b[31m[bold]name[/bold]\x9b2J\u202e"

# -- explain ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "english", "often", "clocks"),
    [
        ("30 2 * * *", "every day at 02:30", "36[456] times in a year", "runs right after the gap"),
        ("*/5 * * * *", "every 5 minutes", "288 times in the next 24 hours, more than 10,000", "follows the wall"),
        ("every 90m", "every 1 hour 30 minutes", "16 times in the next 24 hours, 5,840 times", "elapsed time"),
        ("RRULE:FREQ=DAILY", "every day", "36[456] times in a year", "runs right after the gap"),
    ],
)
def test_explain(cli: Cli, expression: str, english: str, often: str, clocks: str) -> None:
    """Between the days on which the clocks change in two years, 365 days have one occurrence more or less."""
    answer = cli("explain", expression, "--tz", "Europe/Berlin")
    assert answer.code == 0
    assert answer.out.startswith(english)
    assert re.search(often, answer.out) and clocks in answer.out


def test_explain_says_what_may_surprise(cli: Cli, tmp_path: Path) -> None:
    document = cli("explain", "0 9 1 * 1", "--tz", "Europe/Berlin", "--json").document
    assert document["type"] == "cron"
    assert any("fires when either matches" in warning for warning in document["warnings"])
    assert (document["within_a_day"] <= 1, document["at_least"]) == (True, False)
    assert "they do not change in UTC" in cli("explain", "@daily", "--tz", "UTC").out
    once = cli("explain", "tomorrow 9am", "--tz", "UTC")
    assert "it is one instant" in once.out and "often" not in once.out
    assert list(tmp_path.iterdir()) == []


def test_explain_names_the_field_that_is_wrong(cli: Cli) -> None:
    answer = cli("explain", "0 25 * * *")
    assert answer.code == 2
    assert "the hour cannot be '25': use 0-23" in answer.err


# -- tail -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def room(tmp_path: Path) -> App:
    return build(Settings(db=str(tmp_path / "my.db")))


def make_due(room: App, number: int, name: str = "job", kind: str = "job") -> None:
    payload = {"task": "echo", "args": ["hi"]} if kind == "job" else {"message": "hi", "topic": "home"}
    news = [NewSchedule(kind, name, "interval", {"hours": 1}, payload) for _ in range(number)]
    for made in room.scheduler.create_many(OPERATOR, news):
        room.scheduler.run_now(OPERATOR, made.definition.public_id)


def words(news: list[tuple[str, Run]]) -> list[tuple[str, str]]:
    return [(word, run.name) for word, run in news]


def work_off(tmp_path: Path, room: App) -> None:
    def ended() -> bool:
        """Nothing stands in line, and what was taken is over: a stopping worker gives back what it has not begun."""
        due = room.store.health(room.clock.now()).overdue
        return due == 0 and room.store.runs(RunQuery(status="live")).total == 0

    with Duetime(str(tmp_path / "my.db")):
        eventually(ended, 30, "everything has ended")


def test_every_run_is_told_once_however_it_ends(room: App, tmp_path: Path) -> None:
    tail = Tail(room, long=0)
    assert tail.news() == []
    make_due(room, 3)
    make_due(room, 1, "message", "notification")
    assert tail.news() == []
    work_off(tmp_path, room)
    assert sorted(words(tail.news())) == [("completed", "job")] * 3 + [("completed", "message")]
    assert tail.news() == []
    room.close()


def test_what_is_tried_again_by_hand_is_news(room: App, tmp_path: Path) -> None:
    payload = {"task": "shorten", "args": ["x"], "kwargs": {"words": 0}}
    new = NewSchedule("job", "bad", "once", {"run_at": "now"}, payload, {"alert": "off"})
    made = room.scheduler.create(OPERATOR, new)
    work_off(tmp_path, room)
    (run,) = history_of(room.scheduler, OPERATOR, made.definition.public_id)
    tail = Tail(room, long=0)
    room.scheduler.retry(OPERATOR, run.id)
    tail.news()
    work_off(tmp_path, room)
    assert words(tail.news()) == [("failed", "bad")]
    room.close()


def test_what_is_too_much_to_show_is_counted(room: App, tmp_path: Path) -> None:
    tail = Tail(room, long=0)
    make_due(room, BATCH + 20)
    work_off(tmp_path, room)
    shown = len(tail.news())
    assert (shown, shown + tail.unseen) == (BATCH, BATCH + 20)
    room.close()


def test_only_one_kind(room: App, tmp_path: Path) -> None:
    tail = Tail(room, kinds=("notification",), long=0)
    make_due(room, 2)
    make_due(room, 1, "message", "notification")
    work_off(tmp_path, room)
    assert words(tail.news()) == [("completed", "message")]
    room.close()


def test_tail_shows_what_another_process_does(cli: Cli, tmp_path: Path) -> None:
    assert cli("job", "add", EVIL, "--task", "echo", "--arg", "early", "--at", "now").code == 0
    worker = start("worker", "--db", "my.db", folder=tmp_path)
    listening = start("tail", "--db", "my.db", "--json", folder=tmp_path)
    try:
        output = Output(listening)
        early = json.loads(output.until(lambda line: '"early"' in line))
        assert (early["event"], early["kind"], early["name"]) == ("completed", "job", EVIL)
        bad = ("--task", "shorten", "--arg", "x", "--kwarg", "words=0")
        assert cli("job", "add", "bad", *bad, "--at", "now").code == 0
        failed = json.loads(output.until(lambda line: '"bad"' in line and '"failed"' in line))
        assert "words: must be at least 1" in failed["error"] and failed["schedule_short_id"] == "j2"
    finally:
        listening.terminate()
        worker.terminate()
        codes = listening.wait(30), worker.wait(30)
    assert codes == (0, 0)
    assert listening.stderr is not None and listening.stderr.read() == ""
    for process in (listening, worker):
        process.communicate()


def test_what_came_of_a_run_is_said_in_its_own_words(
    room: App, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a message that arrived, the message: where it went and with which receipt is for those who ask."""
    make_due(room, 1, "telling", "notification")
    make_due(room, 1, "doing")
    work_off(tmp_path, room)
    Stream(room, json_=False, bar=False, last=10).close()
    lines = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert sorted(line[2] for line in lines) == ["j2", "n1"], "the short ids of the schedules"
    told = {line[3]: line[4] for line in lines}
    assert told["telling"].endswith("  hi") and told["doing"].endswith("  hi")
    room.close()


def test_a_missed_range_that_was_not_counted_to_its_end_says_so(
    room: App, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_due(room, 1, "doing")
    work_off(tmp_path, room)
    [run] = room.scheduler.runs(OPERATOR, RunQuery()).items
    missed = run._replace(status="missed", last=run.due, number=-3, error="it was late")
    monkeypatch.setattr(Tail, "lately", lambda self, number: [("missed", missed)])
    Stream(room, json_=False, bar=False, last=1).close()
    assert "at least 3 occurrences: it was late" in capsys.readouterr().out
    room.close()


def test_what_happened_lately_comes_in_its_order(room: App, tmp_path: Path) -> None:
    make_due(room, 5, "doing")
    work_off(tmp_path, room)
    tail = Tail(room, long=0)
    every_one = [run.id for _, run in tail.lately(10)]
    assert len(every_one) == 5 and every_one == sorted(every_one)
    assert [run.id for _, run in tail.lately(2)] == every_one[-2:]
    room.close()


def test_tail_on_a_terminal_ends_with_ctrl_c(cli: Cli, tmp_path: Path) -> None:
    assert cli("job", "add", "soon", "--task", "echo", "--every", "2h").code == 0
    with on_terminal("tail", "--db", "my.db", folder=tmp_path) as terminal:
        terminal.until("next: soon in 1 h")
        terminal.interrupt()
        terminal.rest()
    assert terminal.process.returncode == 0


def test_tail_refuses_what_is_no_kind(cli: Cli) -> None:
    answer = cli("tail", "--kind", "jobs")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "Choose one of: job, prompt" in answer.err


def test_a_signal_that_comes_in_the_middle_of_waiting_is_heard() -> None:
    """Again and again, at whatever place: an Event would hang sooner or later, on its own lock."""
    flag, heard = Flag(), 0
    before = signal.signal(signal.SIGVTALRM, lambda *_: flag.set())
    try:
        for _ in range(50):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005)
            while not flag.wait(0):
                continue
            heard += 1
            flag.close()
            flag = Flag()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        flag.close()
    assert heard == 50


def test_a_signal_that_does_not_interrupt_the_wait_is_heard() -> None:
    """Such as one that comes just before the system waits; here, one that the system gives to another thread."""
    button, done = StopButton(), threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    assert other.ident is not None
    sender = threading.Timer(0.3, signal.pthread_kill, (other.ident, signal.SIGTERM))
    try:
        with button.installed():
            assert not button.stop.wait(0)
            sender.start()
            began = SystemClock().monotonic()
            assert button.stop.wait(30)
            assert SystemClock().monotonic() - began < 15
    finally:
        sender.join()
        done.set()
        other.join()
    assert signal.getsignal(signal.SIGTERM) is not button


def test_a_signal_of_somebody_else_does_not_end_the_wait_for_good() -> None:
    button = StopButton()
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with button.installed():
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            button.stop.wait(10)
            began = SystemClock().monotonic()
            assert not button.stop.wait(0.05)
            assert SystemClock().monotonic() - began >= 0.05
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_is_heard_where_there_is_no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll")
    flag = Flag()
    before = signal.signal(signal.SIGALRM, lambda *_: flag.set())
    try:
        assert not flag.wait(0)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert flag.wait(600)
    finally:
        signal.signal(signal.SIGALRM, before)
        flag.close()


# -- top --------------------------------------------------------------------------------------------------------------


def test_top_of_an_empty_store_says_what_to_do(cli: Cli) -> None:
    answer = cli("top", "--once")
    assert answer.code == 0
    assert "start one with `duetime serve` or `duetime worker`" in answer.out
    document = cli("top", "--json").document
    assert (document["workers"], document["running"], document["next"], document["failed"]) == ([], [], [], [])


@pytest.fixture
def busy(cli: Cli, tmp_path: Path, room: App) -> App:
    """A live and a silent worker, a run in hand, one that failed, and others to come."""
    make_due(room, 1, EVIL)
    now = room.clock.now()
    room.store.register("silent:1", ["job", "job:exact"], False, Instant(now - 10 * MINUTE))
    live = room.store.register("live:1", ["job", "job:exact", "prompt"], False, now)
    room.store.beat(live, now, {})
    room.store.record_and_claim(live, now, [], [ClaimRequest("job", 1, now)])
    bad = ("--task", "shorten", "--arg", "x", "--kwarg", "words=0")
    assert cli("job", "add", "bad", *bad, "--at", "in 1 second", "--alert", "off").code == 0
    for number in range(40):
        assert cli("job", "add", f"later {number}", "--task", "echo", "--every", f"{number + 2}h").code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.schedules("failed"), 20, "a failed job")
    return room


@pytest.mark.later
def test_top_shows_workers_what_runs_what_comes_and_what_failed(cli: Cli, tmp_path: Path, busy: App) -> None:
    shown = cli("top").out
    assert all(line.isprintable() for line in shown.splitlines())
    assert "live:1" in shown and "silent" in shown
    assert "\\x1b[31m[bold]name" in shown
    assert "words: must be at least 1" in shown
    assert shown.count("later ") == 40
    document = cli("top", "--json").document
    assert [(each["name"], each["alive"]) for each in document["workers"]] == [("live:1", True), ("silent:1", False)]
    assert document["workers"][0]["running"] == 1
    assert [run["name"] for run in document["running"]] == [EVIL]
    assert [run["name"] for run in document["failed"]] == ["bad"]
    assert [each["name"] for each in document["next"][:2]] == [EVIL, "later 0"]
    for columns, lines in ((80, 24), (40, 20), (200, 60)):
        with on_terminal("top", "--once", "--db", "my.db", folder=tmp_path, columns=columns, lines=lines) as terminal:
            rows = terminal.rest().rstrip("\n").splitlines()
        assert len(rows) <= lines
        assert max(map(len, rows)) <= columns
        cut = [row for row in rows if re.search(r"NEXT .*\(\d+ of 41\)", row)]
        assert bool(cut) is (lines < 60)
        assert {"WORKERS", "RUNNING"} <= {row.split("  ")[0].strip() for row in rows}
        headings = {row.split()[0]: row.split()[1:] for row in rows if row.strip()}
        assert "BUSY" in headings["WORKERS"] and "WHEN" in headings["NEXT"] and "WHEN" in headings["FAILED"]
    assert cli("dead", "dismiss", "--all").code == 0
    assert cli("top", "--json").document["failed"] == [], "nobody needs to look at it any more"
    busy.close()


def test_parts_of_a_small_screen_give_way_to_one_another() -> None:
    assert _shares([1, 40, 40, 2], 24) == [1, 5, 5, 2]
    assert _shares([1, 2, 0, 3], 60) == [1, 2, 0, 3]
    assert _shares([5, 5, 5, 5], 1) == [1, 1, 1, 1], "none of them disappears"


def test_top_is_drawn_again_until_ctrl_c_also_on_a_terminal_that_only_prints(cli: Cli, tmp_path: Path) -> None:
    assert cli("job", "add", "soon", "--task", "echo", "--every", "2h").code == 0
    arguments = ("top", "--interval", "0.2", "--db", "my.db")
    with on_terminal(*arguments, folder=tmp_path) as terminal:
        terminal.until("soon")
        assert "\x1b[?1049h" in terminal.raw
        terminal.interrupt()
        terminal.rest()
    assert "\x1b[?1049l" in terminal.raw
    assert terminal.process.returncode == 0
    with on_terminal(*arguments, folder=tmp_path, env={"TERM": "dumb"}) as terminal:
        terminal.until("soon")
        terminal.until("soon")
        terminal.interrupt()
        terminal.rest()
    assert "\x1b" not in terminal.raw
    assert terminal.process.returncode == 0


def test_keys_of_top_select_show_retry_pause_and_quit(cli: Cli, tmp_path: Path) -> None:
    assert cli("job", "add", "first", "--task", "echo", "--every", "2h").code == 0
    assert cli("job", "add", "bad", "--task", "shorten", "--arg", "a", "--arg", "0", "--at", "in 1 hour").code == 0
    assert cli("job", "run", "bad").code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.schedules("failed"), 20, "a failed job")
    with on_terminal("top", "--interval", "0.2", "--db", "my.db", folder=tmp_path, columns=110, lines=30) as terminal:
        terminal.until("q quit")
        terminal.type("p")
        terminal.until("Select a row first")
        terminal.type("\x1b[B\r")
        terminal.until("esc back")
        assert "every 2 hours" in terminal.text or "in 1 hour" in terminal.text
        terminal.type("p")
        terminal.until("Paused ")
        terminal.type("p")
        terminal.until("Resumed ")
        terminal.type("\x1b")
        terminal.until("q quit")
        terminal.type("k")  # from the first row to the last one, which failed
        terminal.type("r")
        terminal.until("Requeued run 1.")
        terminal.type("q")
        terminal.rest()
    assert terminal.process.returncode == 0
    assert "\x1b[?1049l" in terminal.raw
    assert cli("dead", "list", "--json").document["total"] == 0


def test_top_shows_the_input_of_a_run_of_its_own(room: App) -> None:
    new = NewSchedule("job", "greet", "interval", {"hours": 2}, {"task": "echo", "args": ["as usual"]})
    schedule = room.scheduler.create(OPERATOR, new)
    run = room.scheduler.run_with(OPERATOR, schedule, {"task": "echo", "args": ["for once"]})
    actions = Actions(room)
    actions.choose([TopRow(schedule.definition.id, run, ())])
    actions.press(ENTER)
    console = Console(width=100)
    with console.capture() as shown:
        console.print(actions.details())
    assert "for once" in shown.get() and "as usual" not in shown.get()


def test_top_pauses_a_schedule_whose_kind_is_not_installed(room: App) -> None:
    room.store.create([every(HOUR, room.clock.now(), kind="gone", name="left over")])
    [schedule] = room.store.search(ScheduleQuery()).items
    actions = Actions(room)
    actions.choose([TopRow(schedule.definition.id, None, ())])
    actions.press(DOWN)
    actions.press("p")
    assert actions.message == "Paused left over (owner ada); u undoes it."
    actions.press("p")
    assert actions.message == "Resumed left over (owner ada); u undoes it."


def rows_of_next(room: App, actions: Actions, lines: int = 20) -> list[str]:
    """Draw a frame, and return the names in NEXT; the selected one with an asterisk, paused ones with `paused`."""
    frame = frame_of(room, actions.filter, actions.places)
    console = Console(width=100, height=lines, force_terminal=True, color_system="truecolor", legacy_windows=False)
    with console.capture() as shown:
        console.print(laid_out(frame, lines, actions))
    rows = []
    for line in shown.get().split("NEXT")[1].split("FAILED")[0].splitlines()[1:]:
        if name := re.search(r"schedule \d+", line):
            is_selected = re.search(r"\x1b\[[0-9;]*7m", line) is not None
            rows.append(name[0] + "*" * is_selected + " paused" * ("paused" in line))
    return rows


def test_a_row_of_top_keeps_its_place_and_stays_selected(room: App) -> None:
    """Also when it is paused, resumed long after, undone, or overtaken by others while it is selected."""
    schedules = [
        room.scheduler.create(
            OPERATOR, NewSchedule("job", f"schedule {n}", "interval", {"minutes": n}, {"task": "echo"})
        )
        for n in range(10, 70)
    ]
    actions = Actions(room)
    rows = rows_of_next(room, actions)
    assert rows[:3] == ["schedule 10", "schedule 11", "schedule 12"] and len(rows) < 20
    actions.press(DOWN)
    actions.press(DOWN)
    for key, state in (("p", " paused"), ("p", ""), ("p", " paused"), ("u", ""), ("u", " paused"), ("u", "")):
        actions.press(key)
        now = rows_of_next(room, actions)
        assert now == ["schedule 10", f"schedule 11*{state}", *rows[2:]], key
    actions.press("u")
    assert actions.message.startswith("There is no pause or resume to undo")
    later = Changes(trigger_type="interval", trigger_config={"hours": 30})
    room.scheduler.edit(OPERATOR, schedules[1].definition.public_id, later)
    assert rows_of_next(room, actions)[1] == "schedule 11*", "it fires last now, and is selected"
    actions.press("p")
    actions.press(DOWN)
    assert rows_of_next(room, actions)[1:3] == ["schedule 11 paused", "schedule 12*"], "p can still resume it"
    actions.press("u")
    assert rows_of_next(room, actions)[1] == "schedule 11", "not selected, so that it goes where it belongs"
    assert "schedule 11" not in rows_of_next(room, actions)
    room.scheduler.delete(OPERATOR, schedules[2])
    assert not any("*" in row for row in rows_of_next(room, actions)), "no other row takes its place"
    actions.press("p")
    assert actions.message == "Select a row first, with the arrow keys."
    actions.press(DOWN)
    assert rows_of_next(room, actions)[:3] == ["schedule 10", "schedule 13", "schedule 14*"]


def test_an_undone_resume_pauses_as_before(room: App) -> None:
    schedule = room.scheduler.create(OPERATOR, NewSchedule("job", "greet", "interval", {"hours": 2}, {"task": "echo"}))
    until = Instant(room.clock.now() + HOUR)
    room.scheduler.pause(OPERATOR, schedule, until=until, note="holiday")
    actions = Actions(room)
    actions.choose([TopRow(schedule.definition.id, None, ())])
    for key in (DOWN, "p", "u"):
        actions.press(key)
    assert actions.message == "Paused greet again."
    [now] = room.store.search(ScheduleQuery()).items
    assert (now.progress.state, now.definition.resume_at, now.progress.note) == ("paused", until, "holiday")


def test_top_on_a_terminal_toggles_undoes_filters_and_helps(cli: Cli, tmp_path: Path, room: App) -> None:
    for number in range(212):
        name = f"{'Ping' if number % 100 == 7 else 'Resize'} {number}"
        create(room.store, every(HOUR + number * MINUTE, room.clock.now(), name=name))  # type: ignore[arg-type]

    def paused() -> list[str]:
        return [each["name"] for each in cli("list", "--status", "paused", "--json").document["schedules"]]

    with on_terminal("top", "--interval", "0.2", "--db", "my.db", folder=tmp_path, columns=110, lines=70) as terminal:
        terminal.until("(50 of 212)")
        terminal.until("/ filter")
        terminal.type("jj")
        terminal.type("p")
        terminal.until("Paused Resize 1 (owner ada); u undoes it.")
        assert paused() == ["Resize 1"]
        terminal.type("p")
        terminal.until("Resumed Resize 1 (owner ada); u undoes it.")
        assert paused() == []
        terminal.type("pju")
        terminal.until("Resumed Resize 1 (owner ada) again.")
        assert paused() == []
        terminal.type("?")
        terminal.until("Undo the last pause or resume")
        terminal.type("?/pingx\x7f")
        terminal.until("/ping▏")
        terminal.until("Ping 107")
        terminal.type("\r")
        terminal.until("Filter: ping (esc clears)")
        terminal.type("kkp")  # the first one, then the last one, which was far beyond the rows that are read
        terminal.until("Paused Ping 207 (owner ada); u undoes it.")
        terminal.type("\x1b")
        terminal.until("of 212)")
        terminal.until("Resize 3")
        terminal.type("q")
        terminal.rest()
    assert terminal.process.returncode == 0
    assert paused() == ["Ping 207"]


def test_columns_of_tail_stay_where_they_are(cli: Cli, tmp_path: Path) -> None:
    for name in ("short", "a name that is longer than any column has room for", "漢字の名前漢字の名前漢字の名前"):
        assert cli("job", "add", name, "--task", "echo", "--arg", "MARK", "--every", "2h").code == 0
        assert cli("job", "run", name).code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        ids = [job.id for job in duetime.schedules()]
        eventually(lambda: all(duetime.history(id)[0].status == "completed" for id in ids), 20, "three runs")
    for columns in (80, 120):
        with on_terminal("tail", "--db", "my.db", folder=tmp_path, columns=columns) as terminal:
            for _ in range(3):
                terminal.until("MARK")
            terminal.interrupt()
            lines = [line for line in terminal.rest().splitlines() if "MARK" in line and "completed" in line]
        assert len({cell_len(line[: line.index("MARK")]) for line in lines}) == 1, lines


def test_run_waits_for_the_end(cli: Cli) -> None:
    """Without a worker it waits in vain; how it stands is said all the same."""
    assert cli("job", "add", "hello", "--task", "echo", "--arg", "hi", "--every", "1h").code == 0
    said = cli("job", "run", "hello", "--wait", "0.1", "--json")
    assert said.code == 6 and said.document["run"]["status"] == "pending" and said.document["warnings"]
    assert cli("job", "run", "hello", "--wait", "61").code == 2
    listed = cli("run", "list", "--from", "2 hours ago", "--to", "today", "--json").document
    assert [run["status"] for run in listed["runs"]] == ["pending"]
    assert listed["counts"] == {"pending": 1} and set(listed["window"]) == {"from", "to"}
    assert cli("job", "add", "bye", "--task", "echo", "--every", "1h").code == 0
    assert cli("job", "run", "bye").code == 0
    assert "1 of 2; --limit shows more. Of all statuses: 2 pending" in cli("run", "list", "--limit", "1").out
    assert cli("run", "list", "--to", "2 days ago", "--json").document["runs"] == []


def test_a_run_is_repeated_with_a_task_of_ones_own_and_its_failure_is_an_exit_code(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine_again.py").write_text(
        "from duetime import task\n\n@task\ndef refused_again(account): raise ValueError('no account')\n"
    )
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    payload = '{"task":"refused_again","args":[],"kwargs":{"account":"live"}}'
    new = every(HOUR, room.clock.now(), name="bad", subject="refused_again", payload=payload)
    create(room.store, new)  # type: ignore[arg-type]
    room.close()
    assert cli("job", "run", "j1").code == 0
    again = ("run", "again", "1", "--set", 'kwargs={"account": "test"}')
    unknown = cli(*again)
    assert unknown.code == 2 and "Unknown task: refused_again; known here: " in unknown.err and "--tasks" in unknown.err
    assert cli("job", "edit", "j1", "--overlap", "allow").code == 0
    assert cli(*again, "--tasks", "mine_again.py").code == 0
    with Duetime(str(tmp_path / "my.db")):
        failed = cli("job", "run", "j1", "--wait", "20", "--json")
        assert (failed.code, failed.document["run"]["status"]) == (1, "failed")


def test_what_fires_next(cli: Cli) -> None:
    assert cli("job", "add", "hello", "--task", "echo", "--arg", "hi", "--every", "1h").code == 0
    assert cli("notify", "add", "tea", "--topic", "kitchen", "--delay", "90m").code == 0
    found = cli("upcoming", "--until", "in 150 minutes", "--json", "--db", "my.db").document
    assert [row["name"] for row in found["upcoming"]] == ["hello", "tea", "hello"] and found["more"] is False
    shown = cli("upcoming", "--topic", "kitchen", "--db", "my.db")
    assert "tea" in shown.out and "hello" not in shown.out
    assert "Nothing is scheduled" in cli("upcoming", "--kind", "prompt", "--db", "my.db").out
