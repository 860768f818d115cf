"""Classes of values that are cheap to make behave as the standard ones do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, replace
from typing import Any, ClassVar

import pytest

from duetime.engine.value_class import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)
    seen: int = field(default=0, compare=False, repr=False)
    count: int = field(default=3, init=False)
    notes: list[str] = field(default_factory=list, init=False)
    total: int = field(init=False)
    unit: ClassVar[str] = "m"

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Point):
    name: str

    def __post_init__(self) -> None:
        Point.__post_init__(self)
        if not self.name:
            raise ValueError("name")


@dataclass(frozen=True)
class Own:
    x: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, eq=False, slots=True)
class Same:
    x: int


@dataclass(frozen=True, slots=True)
class Pair:
    x: int
    y: str


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(slots=True)
class Changing:
    """What may be set; one of its names is that of another one with a word before it."""

    runs: list[str] = field(default_factory=list)
    new_runs: list[str] = field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """A point."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)
    seen: int = field(default=0, compare=False, repr=False)
    count: int = field(default=3, init=False)
    notes: list[str] = field(default_factory=list, init=False)
    total: int = field(init=False)
    unit: ClassVar[str] = "m"

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


def test_it_is_what_the_standard_one_is() -> None:
    calls: list[tuple[Any, ...]] = [(1,), (1, 3), (1, 3, ["a"]), (1, 3, [], 9)]
    for arguments in calls:
        assert repr(Point(*arguments)) == repr(Standard(*arguments)).replace("Standard", "Point")
        assert (Point(*arguments) == Point(1)) == (Standard(*arguments) == Standard(1))
    assert list(inspect.signature(Point).parameters) == list(inspect.signature(Standard).parameters)
    assert [each.name for each in dataclasses.fields(Point)] == [each.name for each in dataclasses.fields(Standard)]
    assert Point.__match_args__ == Standard.__match_args__
    assert [(each.name, each.type) for each in dataclasses.fields(Named)][:2] == [("x", "int"), ("y", "int")]
    assert Named.__annotations__ == {"name": "str"}
    assert dataclasses.asdict(Point(1)) == dataclasses.asdict(Standard(1))


def test_each_value_has_its_own_list() -> None:
    first = Point(1)
    first.tags.append("a")
    assert Point(1).tags == [] and first != Point(1)


def test_what_is_not_compared_does_not_matter() -> None:
    assert Point(1, seen=1) == Point(1, seen=2)
    others: list[object] = [(1, 2, [], 0), Named(x=1, name="a")]
    assert Point(1) not in others and Point(1) != Named(x=1, name="a")


def test_equal_values_have_one_hash() -> None:
    assert hash(Same(1)) != hash(Same(1)) and Same(1) != Same(1)
    assert hash(Own(1)) == 7 and repr(Own(2)) == "own" and Own(1) == Own(2)
    assert hash(Empty()) == hash(Empty()) and Empty() == Empty() and repr(Empty()) == "Empty()"
    assert len({Pair(1, "a"), Pair(1, "a"), Pair(1, "b")}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_nothing_can_be_set_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert not hasattr(point, "__dict__")


def test_a_class_that_is_not_frozen_can_be_set_and_has_no_hash() -> None:
    changing = Changing()
    changing.runs = ["a"]
    assert (
        changing == Changing(["a"]) and changing.new_runs == [] and repr(Changing()) == "Changing(runs=[], new_runs=[])"
    )
    with pytest.raises(TypeError, match="unhashable"):
        hash(changing)


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        Named(1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="name"):
        Named(x=1, name="")


def pickled(value: object) -> object:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - written here


def test_it_is_copied_pickled_and_replaced() -> None:
    point = Named(x=1, name="a", tags=["b"])
    for twin in (copy.copy(point), copy.deepcopy(point), pickled(point), replace(point)):
        assert twin == point and twin is not point
    assert replace(point, y=5) == Named(x=1, y=5, name="a", tags=["b"])
