"""Formulas for the delay before a retry: what they give, and that nothing but arithmetic is ever read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND
from duetime.engine.errors import InvalidInput
from duetime.kinds.requests.retry_delay import LONGEST, LONGEST_TEXT, USUAL, read_formula, retry_delay

MILLISECOND = 1000


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1000", [1000, 1000, 1000]),
        ("1000 * (1 + retried)", [1000, 2000, 3000]),
        ("pow(2, retried) * 1000", [1000, 2000, 4000]),
        ("max(1000, pow(2, retried) * 100)", [1000, 1000, 1000]),
        ("min(500, 250 * (retried + 1))", [250, 500, 500]),
        ("sqrt(16) + abs(-3) + floor(2.9) + ceil(2.1) + round(2.5)", [15, 15, 15]),
        ("round(exp(retried))", [1, 3, 7]),
        ("10 - 2 - 3", [5, 5, 5]),
        ("100 / 10 / 2", [5, 5, 5]),
        ("2 + 3 * 4", [14, 14, 14]),
        ("-(-7)", [7, 7, 7]),
        ("- - 7", [7, 7, 7]),
        (".5 * 4", [2, 2, 2]),
        ("1e3", [1000, 1000, 1000]),
        ("  ( ( retried ) )  ", [0, 1, 2]),
        ("5 - 10", [0, 0, 0]),
    ],
)
def test_what_a_formula_gives(formula: str, expected: list[int]) -> None:
    assert [retry_delay(formula, retried) for retried in range(3)] == [value * MILLISECOND for value in expected]


def test_the_usual_delays_grow_to_a_day() -> None:
    first, second, third, fourth, *later = (retry_delay(USUAL, retried) for retried in range(7))
    assert first // SECOND == 12
    assert second // SECOND == 148
    assert third // MINUTE == 30
    assert fourth // HOUR == 6
    assert later == [DAY] * 3


@pytest.mark.parametrize(
    "formula", ["pow(10, 400)", "exp(1000)", "1 / retried", "sqrt(-1)", "1e999", "1e999 - 1e999", "pow(0, -1)"]
)
def test_what_has_no_number_waits_longest(formula: str) -> None:
    assert retry_delay(formula, 0) == LONGEST


def test_a_formula_without_a_value_at_first_may_have_one_later() -> None:
    assert retry_delay("1000 / retried", 2) == 500 * MILLISECOND


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "   ",
        "soon",
        "1 +",
        "1 2",
        "(1",
        "1)",
        "()",
        "pow(2)",
        "pow(2, 3, 4)",
        "min(1)",
        "sqrt",
        "sqrt 4",
        "sqrt()",
        "(1, 2)",
        "2 ** 3",
        "7 // 2",
        "7 % 2",
        "1_000",
        "0x10",
        "1e-3",
        "retried.real",
        "retried()",
        "Retried",
        "__import__('os')",
        "exec(1)",
        "lambda: 1",
        "[1]",
        "1; 2",
        "'1'",
        "\u0661",
        "1\x00",
        "1 if retried else 2",
        "1/0 + nonsense",
        "(" * 30 + "1" + ")" * 30,
        "1+" * LONGEST_TEXT + "1",
    ],
)
def test_everything_else_is_refused_in_words(formula: str) -> None:
    with pytest.raises(InvalidInput, match="retry_delay: ") as refused:
        read_formula(formula)
    assert refused.value.field == "retry_delay"


def test_the_longest_formulas_are_read() -> None:
    formula = "1" + "+1" * ((LONGEST_TEXT - 1) // 2)
    assert retry_delay(formula, 0) == (1 + (LONGEST_TEXT - 1) // 2) * MILLISECOND
    assert retry_delay("-" * (LONGEST_TEXT - 2) + "1", 0) == MILLISECOND


Formula = tuple[str, float]


def _pairs(parts: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    """Larger formulas from smaller ones, each with the value that Python's own arithmetic gives."""
    joined = st.tuples(parts, st.sampled_from("+-*"), parts).map(
        lambda each: (
            f"({each[0][0]} {each[1]} {each[2][0]})",
            {"+": each[0][1] + each[2][1], "-": each[0][1] - each[2][1], "*": each[0][1] * each[2][1]}[each[1]],
        )
    )
    called = st.tuples(st.sampled_from(["min", "max"]), parts, parts).map(
        lambda each: (
            f"{each[0]}({each[1][0]},{each[2][0]})",
            {"min": min, "max": max}[each[0]](each[1][1], each[2][1]),
        )
    )
    rounded = parts.map(lambda each: (f"floor({each[0]})", float(math.floor(each[1]))))
    return st.one_of(joined, called, rounded)


NUMBERS: st.SearchStrategy[Formula] = st.one_of(
    st.integers(0, 99).map(lambda number: (str(number), float(number))), st.just(("retried", 3.0))
)


@given(st.recursive(NUMBERS, _pairs, max_leaves=12))
def test_the_reader_agrees_with_ordinary_arithmetic(formula: Formula) -> None:
    text, value = formula
    assert read_formula(text)(3.0) == value


@given(st.text(alphabet="0123456789retid()+-*/, powmaxsq.\t", max_size=60))
def test_any_text_is_a_delay_or_is_refused(text: str) -> None:
    try:
        read_formula(text)
    except InvalidInput:
        return
    assert 0 <= retry_delay(text, 1) <= LONGEST
