"""What the fields of a payload model declare, and what the command and the form make of it."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from typing import Annotated, Any

import pytest

from duetime.dashboard.kind_forms import KindForm
from duetime.engine.errors import InvalidInput
from duetime.service.payload_fields import About, checked_payload, fields_of
from duetime.terminal.schedules.standard import payload_options


def even(field: str, value: Any) -> int:
    if value is None or value % 2:
        raise InvalidInput(field=field, problem="must be even, such as 2")
    return int(value)


def pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    note: Annotated[str, About("What is in it.", argument="NOTE", is_text_input=True)]
    number: Annotated[int, About("Its number.", brief="Number.", check=even)]
    weight: Annotated[int, About("In grams.", minimum=1, maximum=500)] = 20
    stamps: Annotated[list[str] | None, About("Its stamps.", option="--stamp NAME", read_item=str)] = None
    marks: Annotated[dict[str, str] | None, About("Its marks.", option="--mark NAME=VALUE", read_item=pair)] = None
    fragile: Annotated[bool | None, About("Whether it breaks.", option="--fragile")] = None
    origin: Annotated[str | None, About(option="")] = None


FULL = {"note": "cups", "number": 4, "weight": 20}


def test_defaults_are_stored_and_what_is_none_is_left_out() -> None:
    assert checked_payload(Parcel, {"note": "cups", "number": 4, "stamps": None}, "parcel") == FULL


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"number": 3}, "number: must be even, such as 2"),
        ({"number": None}, "number: must be even, such as 2"),
        ({"weight": 0}, "weight: must be a whole number from 1 to 500"),
        ({"weight": True}, "weight: must be a whole number from 1 to 500"),
        ({"note": 5}, "note: must be a text, not "),
        ({"colour": "red"}, "colour: a parcel has no such field; it has note, number, "),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        checked_payload(Parcel, FULL | change, "parcel")
    assert refusal.value.message.startswith(problem), refusal.value.message


@pytest.mark.parametrize("name", ["note", "number"])
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"is missing|must be even") as refusal:
        checked_payload(Parcel, {each: value for each, value in FULL.items() if each != name}, "parcel")
    assert refusal.value.field == name


def test_schemas_have_the_short_texts_and_the_bounds() -> None:
    schemas = {field.name: field.schema for field in fields_of(Parcel)}
    assert schemas["number"] == {"type": "integer", "description": "Number."}
    assert schemas["weight"] == {"type": "integer", "description": "In grams.", "minimum": 1, "maximum": 500}
    assert schemas["fragile"] == {"type": "boolean", "description": "Whether it breaks."}


def test_options_are_read_as_they_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    options = payload_options(Parcel)
    assert {each.name for each in fields(options)} == {"number", "weight", "stamps", "marks", "fragile"}
    given = options(number=4, stamps=("a", "b"), marks=("x=1", "y=2"), fragile=True)  # type: ignore[call-arg]
    monkeypatch.setattr("sys.stdin", io.StringIO("two cups\n"))
    assert given.fields("-", {}) == {
        "note": "two cups", "number": 4, "stamps": ["a", "b"], "marks": {"x": "1", "y": "2"}, "fragile": True,
    }  # fmt: skip
    assert options().fields(None, {}) == {}


def test_a_form_reads_and_shows_what_the_model_declares() -> None:
    class ParcelForm(KindForm):
        model = Parcel
        fields = ("note", "number", "stamps")

    typed = {"note": " cups ", "number": "4", "stamps": "a, b,"}
    assert ParcelForm().read(typed) == {"note": " cups ", "number": 4, "stamps": ["a", "b"]}
    assert ParcelForm().read(typed | {"stamps": " "})["stamps"] is None
    assert ParcelForm().show(FULL | {"stamps": ["a", "b"]}) == {"note": "cups", "number": "4", "stamps": "a, b"}
