"""Arguments of `python -m scorecard`: it takes none but the one that asks for help."""

from __future__ import annotations

import pytest

from scorecard.__main__ import main
from scorecard.lines import LINES


@pytest.mark.parametrize("argument", ["-h", "--help"])
def test_help_names_every_line_and_runs_none(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([argument]) == 0
    said = capsys.readouterr().out
    assert all(line.name in said for line in LINES)
    assert "LINE=name" in said
    assert "verdict" not in said


def test_an_argument_that_does_not_exist_is_refused_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strangers"]) == 2
    said = capsys.readouterr()
    assert "LINE=name" in said.err
    assert said.out == ""
