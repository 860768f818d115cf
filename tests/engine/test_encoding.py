"""Whatever a task returns or raises, what is stored is bounded JSON that every store and reader can take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.engine.encoding import DEPTH, ERROR_LIMIT, LIMIT, encode, encode_whole, error_text

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=())),
    st.binary(),
    st.complex_numbers(),
)
_keys = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.tuples(st.integers()))
_values = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_keys, inner, max_size=5))


def assert_storable(text: str) -> Any:
    assert len(text.encode()) <= LIMIT
    # A backslash that is escaped itself begins no escape: the text \\u0000 is six harmless characters.
    assert "\0" not in text and "\\u0000" not in text.replace("\\\\", "")
    value = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    json.dumps(value, ensure_ascii=False).encode()
    return value


@given(_values)
def test_any_value_is_storable(value: Any) -> None:
    assert_storable(encode(value))


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True, "ü"]}, [], "", 0, "text", {"k": {"n": []}}, ["\U0001f600"]]
)
def test_json_stays_what_it_is(value: Any) -> None:
    assert json.loads(encode(value)) == value


def test_many_values_side_by_side_are_not_deep() -> None:
    value = [{"n": number} for number in range(500)]
    assert json.loads(encode(value)) == value


def test_what_json_does_not_know_becomes_text() -> None:
    assert json.loads(encode({1: {2}, (1, 2): b"x", None: 1j})) == {
        "1": "{2}",
        "(1, 2)": "b'x'",
        "null": "1j",
    }
    assert json.loads(encode([float("nan"), float("-inf")])) == ["nan", "-inf"]
    assert assert_storable(encode(["a\0b", "\ud800", {"\0": 1}])) == ["a\ufffdb", "\ufffd", {"\ufffd": 1}]
    assert assert_storable(encode(10**5000)).startswith("0x")


def test_values_that_fight_back() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    class Walled(list[int]):
        def __iter__(self) -> Any:
            raise RuntimeError("no")

    assert assert_storable(encode(Rude())) == "<Rude without a readable form>"
    assert_storable(encode([Walled([1, 2]), Rude()]))


def test_endless_and_deep_values_end() -> None:
    twice: list[Any] = []
    twice += [twice, twice]
    assert_storable(encode(twice))
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert assert_storable(encode(deep)) is not None
    shallow: Any = "x"
    for _ in range(DEPTH + 20):
        shallow = {"k": shallow}
    assert encode_whole(shallow).count("{") == DEPTH
    while deep != "x":  # taken apart from outside: freeing it at once would recurse
        deep = deep[0]


@pytest.mark.parametrize("value", ["x" * 200_000, '"\\' * 100_000, "\x01" * 100_000, "ü😀" * 60_000, ["x"] * 90_000])
def test_what_is_too_long_is_cut_and_marked(value: Any) -> None:
    cut = assert_storable(encode(value))
    assert cut["cut"] is True
    assert cut["size"] == len(encode_whole(value).encode())
    whole = value if isinstance(value, str) else encode_whole(value)
    assert whole.startswith(cut["text"]) and len(cut["text"]) > 5000
    assert len(encode(value).encode()) > LIMIT * 0.6


def test_the_limit_is_counted_in_bytes() -> None:
    assert json.loads(encode("x" * (LIMIT - 2))) == "x" * (LIMIT - 2)
    assert json.loads(encode("x" * (LIMIT - 1)))["cut"] is True
    assert json.loads(encode("ü" * (LIMIT // 2)))["cut"] is True


def test_errors_are_type_and_message() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert error_text(ValueError("bad")) == "ValueError: bad"
    assert error_text(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert error_text(ValueError("a\0\udfff")) == "ValueError: a\ufffd\ufffd"
    assert error_text(Mute()) == "Mute: (its message cannot be read)"
    long = error_text(ValueError("y" * 10_000_000))
    assert len(long) == ERROR_LIMIT and long.endswith("...")
