"""Inline definitions are read as data: names, calls, literals and `|`, nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.kinds.jobs.pipeline import MOST_CHARACTERS, MOST_STEPS, Step, Unreadable, parse


def plain(step: Step) -> tuple[str, list[Any], dict[str, Any]]:
    return (step.task, *step.arguments())


def test_a_pipeline() -> None:
    first, second, third = parse(
        "fetch('https://example.org') | tools.shorten(words=-50, deep=[1, {'a': (2.5, None)}]) | echo"
    )
    assert plain(first) == ("fetch", ["https://example.org"], {})
    assert plain(second) == ("tools.shorten", [], {"words": -50, "deep": [1, {"a": [2.5, None]}]})
    assert plain(third) == ("echo", [], {})


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("echo", [False]),
        ("echo | echo", [False, False]),
        ("backup() and report('done')", [False, True]),
        ("a and b(1) and c", [False, True, True]),
        ("a | b and c | d(2)", [False, False, True, False]),
        ("(a | b) and (c | d)", [False, False, True, False]),
    ],
)
def test_a_step_after_and_ignores_the_result_before_it(text: str, apart: list[bool]) -> None:
    assert [step.apart for step in parse(text)] == apart


def test_each_call_has_its_own_literals() -> None:
    (step,) = parse("echo([1])")
    step.arguments()[0][0].append(2)
    assert step.arguments() == ([[1]], {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "1",
        "'echo'",
        "echo(",
        "echo; echo",
        "echo\necho",
        "a + b",
        "a & b",
        "a or b",
        "a and b or c",
        "a and (b and c)",
        "a | (b and c)",
        "not a",
        "and a",
        "echo(1 and 2)",
        " and ".join(["echo"] * (MOST_STEPS + 1)),
        " and ".join([" | ".join(["echo"] * MOST_STEPS)] * 2),
        "echo(1 + 1)",
        "echo(x)",
        "echo(echo(1))",
        "echo(*[1])",
        "echo(**{'a': 1})",
        "echo(a=1, a=2)",
        "echo({**{}})",
        "echo({1: 2})",
        "echo({1, 2})",
        "echo(b'x')",
        "echo(1j)",
        "echo(1e999)",
        "echo(...)",
        "echo(f'{1}')",
        "echo(--1)",
        "echo(-True)",
        "echo(-'a')",
        "echo(not 1)",
        "echo()()",
        "echo(1)[0]",
        "(lambda: 1)()",
        "[x for x in y]",
        "__import__('os').system('true')",
        "(x := 1)",
        "echo('a\0b')",
        "await echo()",
        "yield",
        "echo(" + "[" * 25 + "]" * 25 + ")",
        "echo(" + "-" * 4000 + "1)",
        "(" * 3000 + "echo" + ")" * 3000,
        "a" + ".a" * 3000,
        " | ".join(["echo"] * (MOST_STEPS + 1)),
        "echo('" + "x" * MOST_CHARACTERS + "')",
        "echo(" + "9" * 5000 + ")",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)


def test_as_many_steps_as_allowed() -> None:
    assert len(parse(" | ".join(["echo"] * MOST_STEPS))) == MOST_STEPS


@given(st.text(st.characters(exclude_categories=()), max_size=200) | st.text("echo()[]{}|'\",.=-*1 \\", max_size=60))
def test_no_text_does_harm(text: str) -> None:
    try:
        steps = parse(text)
    except Unreadable:
        return
    assert all(isinstance(step, Step) for step in steps)
