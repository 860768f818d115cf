"""The scorecard's own parts: scales, choice of lines, and the document that is written row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from scorecard.line import Line, Result, Scale
from scorecard.lines import LINES, chosen
from scorecard.running import Row, run_line
from scorecard.table import write_row

ONE = Line("one", "the first", "0 lost", "scorecard.nowhere")
TWO = Line("two", "the second", "0 lost", "scorecard.nowhere")


def row(line: Line, measured: str, *failures: str) -> Row:
    return Row(line, Result({"kills": 6000}, measured, failures), 1.0)


def test_scales_take_all_a_tenth_or_a_few() -> None:
    assert [scale.of(600, 6) for scale in Scale] == [600, 60, 6]


def test_a_row_is_replaced_as_its_line_ends_and_the_others_stay(tmp_path: Path) -> None:
    document = tmp_path / "scorecard.md"
    write_row(row(TWO, "lost 3 | torn", "it was lost"), (ONE, TWO), document)
    write_row(row(ONE, "lost 0"), (ONE, TWO), document)
    write_row(row(TWO, "lost 1", "it was lost"), (ONE, TWO), document)
    rows = [text for text in document.read_text(encoding="utf-8").splitlines() if text.startswith("| `")]
    assert [text.split(" | ")[:5] for text in rows] == [
        ["| `one`", "the first", "6,000 kills", "lost 0", "0 lost"],
        ["| `two`", "the second", "6,000 kills", "lost 1", "0 lost"],
    ]
    assert "| FAILED |" in rows[1] and "| passed |" in rows[0]


def test_a_line_that_raises_has_failed_and_says_why() -> None:
    made = run_line(ONE, Scale.SMALL)
    assert not made.result.passed
    assert "scorecard.nowhere" in made.result.failures[0]


def test_an_unknown_line_is_refused_with_the_known_names() -> None:
    with pytest.raises(SystemExit, match="choose among one, two"):
        chosen("three", (ONE, TWO))
    assert chosen("", (ONE, TWO)) == (ONE, TWO)
    assert chosen(" two,", (ONE, TWO)) == (TWO,)


def test_names_and_modules_of_lines_are_unique() -> None:
    assert len({line.name for line in LINES}) == len({line.module for line in LINES}) == len(LINES)
