"""Tables of the command line on terminals of every width: nothing is cut to a beginning that says nothing."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from duetime.app import build
from duetime.engine.clock import HOUR, Instant
from duetime.engine.model import Schedule, ScheduleId
from duetime.engine.outcome import Failed
from duetime.engine.policy.rows import begin
from duetime.kinds.jobs.view import JOB
from duetime.settings import Settings
from duetime.terminal import output
from duetime.terminal.output import READABLE, fitting
from duetime.terminal.schedules.change import run_ending
from duetime.terminal.schedules.display import outcome_text, print_runs, print_schedules
from duetime.terminal.schedules.kind_view import KindView
from tests.support.cli import Cli
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, runs_of
from tests.support.jobs import make_work
from tests.support.size import some

NAME = "Sync the ledger with the bank"
ERROR = "ValueError: the certificate of ledger.example.org expired on 2026-02-01 and nobody renewed it"
WIDTHS = some(range(40, 170))


def paper_of(columns: int, monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What is printed on a terminal that is so wide."""
    paper = StringIO()
    made = Console(file=paper, width=columns, highlight=False, markup=False, emoji=False)
    monkeypatch.setattr(output, "console", lambda: made)
    monkeypatch.setattr(output, "width", lambda: columns)
    monkeypatch.setattr(sys, "stdout", paper)
    return paper


def schedule(number: int, owner: str = "local", status: str | None = None) -> Schedule:
    draft = every(HOUR, name=NAME, owner=owner, public_id=f"job_{number}_1794737142")
    definition, progress, _ = begin(draft, ScheduleId(number))
    return Schedule(definition, progress._replace(last_status=status))


def listed(columns: int, monkeypatch: pytest.MonkeyPatch, items: list[Schedule], words: KindView = JOB) -> list[str]:
    paper = paper_of(columns, monkeypatch)
    print_schedules(words, items, "UTC", Instant(T0))
    return paper.getvalue().splitlines()


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_name_is_readable_on_every_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = listed(columns, monkeypatch, [schedule(7, status="completed"), schedule(12, "ada@example.org")])
    assert max(map(len, lines)) <= columns
    assert sum(NAME[: READABLE - 1] in line for line in lines) == 2
    assert sum(line.startswith("j12 ") and "in 1 h" in line for line in lines) == 1
    assert any("ada@example.org" in line for line in lines), "whose it is, where that is news"


def test_what_says_least_gives_way_first(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [schedule(7, status="completed")]
    always = ["ID", "STATUS", "NEXT", "NAME"]
    headings = {columns: listed(columns, monkeypatch, items)[0].split() for columns in (120, 73, 63, 48)}
    assert headings[120] == [*always, "WHEN", "LAST", "RUNS"]
    assert headings[73] == [*always, "WHEN", "LAST"]
    assert headings[63] == [*always, "WHEN"]
    assert headings[48] == always


def test_an_owner_is_left_out_where_all_have_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    of_ada = [schedule(7, "ada@example.org"), schedule(8, "ada@example.org")]
    assert "OWNER" in listed(140, monkeypatch, of_ada)[0]
    assert "OWNER" not in listed(68, monkeypatch, of_ada)[0]
    assert "OWNER" in listed(68, monkeypatch, [*of_ada, schedule(9, "bob@example.org")])[0]


@pytest.mark.parametrize("columns", WIDTHS)
def test_an_error_is_never_a_narrow_strip(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = paper_of(columns, monkeypatch)
    headings = ["RUN", "STATUS", "DUE", "TRY", "TOOK", "LATE", "RESULT OR ERROR"]
    row = [210, output.status_text("failed"), "2026-11-15 10:05:42", 2, "12 ms", "-", ERROR]
    output.table(headings, [row], whole=3, fold=True, spare={"LATE": 24})
    lines = paper.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) <= 2 + len(ERROR) / (READABLE / 2)
    assert any("210" in line and "2026-11-15 10:05:42" in line for line in lines)


def test_a_stacked_row_keeps_what_belongs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = paper_of(50, monkeypatch)
    rows = [[210, "failed", NAME, 2, "12 ms", ERROR], ["", "failed", "", 1, "-", "no"]]
    output.table(["RUN", "STATUS", "NAME", "TRY", "TOOK", "ERROR"], rows, whole=2, fold=True)
    assert [line.rstrip() for line in paper.getvalue().splitlines()] == [
        "210  failed",
        f"  name  {NAME}",
        "  try 2  took 12 ms",
        "  ValueError: the certificate of",
        "  ledger.example.org expired on 2026-02-01 and",
        "  nobody renewed it",
        "  failed",
        "  try 1",
        "  no",
    ]


def test_columns_go_one_by_one_and_then_the_table() -> None:
    headings, widths = ["ID", "NAME", "WHEN", "RUNS"], [10, 40, 40, 4]

    def shown(room: int) -> list[int] | None:
        return fitting(headings, widths, room, whole=1, spare={"RUNS": 24, "WHEN": READABLE})

    assert shown(12 + 26 + 26 + 6) == [0, 1, 2, 3]
    assert shown(12 + 26 + 26 + 5) == shown(12 + 18 + 18) == [0, 1, 2]
    assert shown(12 + 18 + 17) == shown(12 + 18) == [0, 1]
    assert shown(12 + 17) is None
    assert fitting(["ID", "NAME"], [10, 5], 19, whole=1, spare={}) == [0, 1], "what is short needs no more"


def test_a_range_that_did_not_run_says_how_many_and_whether_those_were_all() -> None:
    missed = make_work("echo").claim.run._replace(status="missed", last=Instant(T0), number=3, error="nobody was there")
    assert outcome_text(missed) == "3 occurrences: nobody was there"
    assert outcome_text(missed._replace(number=-3)) == "at least 3 occurrences: nobody was there"
    by_hand = missed._replace(last=None, cause="manual")
    assert outcome_text(by_hand) == "started manually; nobody was there"
    assert run_ending(by_hand._replace(status="failed"), 0, None) == "failed: nobody was there", "its reader started it"


def test_a_run_in_retry_says_when_it_is_tried_next(cli: Cli, tmp_path: Path) -> None:
    app = build(Settings(db=str(tmp_path / "my.db"), timezone="UTC"), tasks=False)
    now = app.clock.now()
    create(app.store, once(now, name="tea", max_attempts=3, backoff=HOUR))  # type: ignore[arg-type]
    hand = Hand(app.store, now=now)  # type: ignore[arg-type]
    hand.record(hand.claim(now), now, Failed("nobody answers"))
    app.close()
    for command in (("run", "show", "1"), ("job", "history", "j1"), ("job", "show", "j1")):
        said = cli(*command).out
        assert "nobody answers" in said and "next attempt 20" in said and re.search(r"\(in \d+ min", said)
    assert cli("job", "history", "j1", "--json").document["runs"][0]["next_attempt"] is not None
    assert cli("run", "show", "1", "--json").document["next_attempt"] is not None
    [retrying] = cli("top", "--json").document["retrying"]
    assert retrying["name"] == "tea" and retrying["next_attempt"] is not None
    assert "RETRYING" in cli("top").out


def test_an_error_of_several_lines_is_one_line_where_there_is_one(cli: Cli, tmp_path: Path) -> None:
    app = build(Settings(db=str(tmp_path / "my.db"), timezone="UTC"), tasks=False)
    now = app.clock.now()
    create(app.store, every(HOUR, now - HOUR, name="tea", max_attempts=1))  # type: ignore[arg-type]
    hand = Hand(app.store, now=now)  # type: ignore[arg-type]
    hand.record(hand.claim(now), now, Failed("refused\n\tIs the server there?", traceback="Trace:\n\tIs it?"))
    app.close()
    for command in (("run", "show", "1"), ("history", "j1"), ("show", "j1"), ("dead", "list")):
        answer = cli(*command)
        shown = answer.out + answer.err
        assert "refused Is the server there?" in shown and not re.search(r"\\[tn]", shown), command


def test_history_shows_every_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = build(Settings(db=str(tmp_path / "my.db"), timezone="UTC"), tasks=False)
    now = app.clock.now()
    [made] = create(app.store, once(now, max_attempts=4, backoff=1))  # type: ignore[arg-type]
    hand = Hand(app.store, now=now)  # type: ignore[arg-type]
    for number, error in enumerate(("the first time", "the first time", "the third time", "the fourth time")):
        later = now + number * HOUR
        hand.record(hand.claim(later), later, Failed(error))
    paper = paper_of(120, monkeypatch)
    print_runs(app, runs_of(app.store, made.definition.id))  # type: ignore[arg-type]
    app.close()
    heading, *told = (line.split() for line in paper.getvalue().splitlines())
    assert heading[3] == "TRY"
    assert [line[-7:] for line in told] == [
        ["0", "ms", "0", "ms", "the", "fourth", "time"],
        ["failed", "3", "0", "ms", "the", "third", "time"],
        ["failed", "2", "0", "ms", "the", "first", "time"],
        ["failed", "1", "0", "ms", "the", "same", "error"],
    ]
