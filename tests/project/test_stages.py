"""Every test is in one of the two stages that CI runs, and every file has a small version in the first one."""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path

import pytest

from tests.support.stages import COVERED, FOLDERS, STORES, cover

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


def test_ci_runs_both_stages() -> None:
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert '$(TESTS) -m "not later" --ignore tests/e2e $(ARGS)' in recipes
    assert "$(TESTS) -m later $(ARGS)" in recipes
    assert "types unit scorecard-small" in recipes
    assert {"make test", "make e2e"} <= {*(ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()}


def test_the_tables_name_files_and_folders() -> None:
    for name in COVERED:
        assert (TESTS / name).is_file(), name
    for name in (*FOLDERS, *STORES):
        assert (TESTS / name).is_dir(), name


def test_no_file_is_wholly_in_the_later_stage() -> None:
    for path in TESTS.glob("*/**/test_*.py"):
        text = path.read_text(encoding="utf-8")
        if "mark.later" not in text or path == Path(__file__):
            continue
        tests = [each for each in ast.walk(ast.parse(text)) if str(getattr(each, "name", "")).startswith("test_")]
        later = [each for each in tests if any(ast.unparse(mark)[-10:] == "mark.later" for mark in _marks(each))]
        assert later or "pytest.param(" in text, path  # the marker is at a test, or at some of its cases
        assert len(later) < len(tests), path
        assert "pytestmark = pytest.mark.later" not in text, path


def _marks(test: ast.AST) -> list[ast.expr]:
    return getattr(test, "decorator_list", [])


@pytest.mark.parametrize(("together", "number"), [(1, 6), (2, 24), (3, 72)])
def test_a_cover_has_every_combination_of_so_many_values(together: int, number: int) -> None:
    cases = list(product("abc", "defg", "hijklm"))
    chosen = [cases[place] for place in cover(cases, together)]
    assert number <= len(chosen) <= number + number // 6
    for places in [(0,), (1,), (2,)] if together == 1 else [(0, 1), (0, 2), (1, 2)]:
        wanted = {tuple(case[place] for place in places) for case in cases}
        assert {tuple(case[place] for place in places) for case in chosen} == wanted


def test_a_cover_uses_each_value_about_as_often_as_the_others() -> None:
    cases = list(product(map(str, range(30)), "abcde"))
    chosen = [cases[place][1] for place in cover(cases)]
    assert {chosen.count(letter) for letter in "abcde"} == {6}


def test_what_differs_in_one_value_only_is_whole() -> None:
    assert cover([("a",), ("b",), ("c",)]) == {0, 1, 2}
    assert cover([()]) == {0}
