"""The part of the schedule form that belongs to a kind, and the standard form that is generated from a payload
model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.service.kind_spec import KindSpec, known_specs, load
from duetime.service.masking import masked_payload, unmasked_payload
from duetime.service.payload_fields import PayloadField, fields_of
from duetime.service.services import Services

Values = dict[str, str]
"""The texts of a form by the names of its fields."""
LONGEST_NAME: Final = 80


class KindForm:
    """The fields of a kind's payload in the schedule form. This base class has none."""

    model: type[Any] | None = None
    """The payload model that declares the fields; without one, all of them are texts."""
    fields: tuple[str, ...] = ()
    template: str = ""
    """Template of the fields, such as `job/form.html` for a file in the folder `templates` beside the kind's form."""
    named_by: tuple[str, ...] = ()
    """Fields that provide the name of a schedule without one: the first that is not empty. The last one must not be
    empty."""
    named_by_label: str = "first words"
    creates: bool = True
    """Whether schedules of this kind are created in the dashboard as well as edited."""
    create_command: tuple[str, ...] = ()
    """An example of the command that creates one, if the dashboard does not."""
    own_policy: tuple[str, ...] = ()
    """Fields of the policy that the template shows itself."""
    prefix: str = ""
    """Prefix of the names of further inputs, which depend on what was typed in the fields."""
    text_field: str = ""
    """The field with the text that people read; switching to another kind keeps this text."""
    samples: Mapping[str, Any] = MappingProxyType({})
    """Valid sample values of required fields, used to check the other fields after one was found invalid."""
    waits: bool = False
    """Whether its runs may wait for somebody to take them."""

    def read(self, values: Values) -> dict[str, Any]:
        """Return the payload fields; None means that a field is left out."""
        return {each.name: _value(each, values[self.input_of(each.name)]) for each in self._shown_fields()}

    def show(self, payload: Mapping[str, Any]) -> Values:
        """Return the form values of a payload, in which credentials are masked."""
        values = {name: text_of(payload.get(name)) for name in self.fields}
        fields = self._shown_fields()
        return values | {self.input_of(each.name): _show(each, payload.get(each.name, each.default)) for each in fields}

    def _shown_fields(self) -> list[PayloadField]:
        """Return the fields of the payload model that the form shows."""
        fields = () if self.model is None else fields_of(self.model)
        return [each for each in fields if self.input_of(each.name) in self.fields]

    def context(self, services: Services, caller: Caller, values: Values) -> dict[str, Any]:
        """Return what else the template needs. The owner of `caller` is that of the schedule."""
        return {}

    def arrange(self, services: Services, caller: Caller, values: Values) -> Values:
        """Return the values as the form shows them, for example with arguments in inputs of their own."""
        return values

    def problems(
        self, services: Services, caller: Caller, kind: str, values: Values, stored: Mapping[str, Any]
    ) -> list[InvalidInput]:
        """Return everything that is wrong with the values. An invalid field is left out or replaced with a sample, and
        then the others are checked."""
        try:
            payload = self.payload(kind, values, stored)
        except InvalidInput as error:
            return [error]
        problems: dict[str, InvalidInput] = {}
        while kind in services.kinds and len(problems) <= len(self.fields):
            try:
                services.kinds[kind].prepare(payload, caller)
                break
            except InvalidInput as error:
                field = error.field or ""
                if field in problems or not (field in payload or field in self.samples):
                    problems.setdefault(field, error)
                    break
                problems[field] = error
                payload = {name: value for name, value in payload.items() if name != field}
                payload |= {field: self.samples[field]} if field in self.samples else {}
        return list(problems.values())

    def payload(self, kind: str, values: Values, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored payload with the values of the form; parts that the form does not show are kept."""
        fields = masked_payload(kind, dict(stored)) | self.read(values)
        fields = {name: value for name, value in fields.items() if value is not None}
        payload: dict[str, Any] = unmasked_payload(kind, fields, dict(stored))
        return payload

    def values(self, kind: str, stored: Mapping[str, Any]) -> Values:
        return self.show(masked_payload(kind, dict(stored)))

    def name_of(self, values: Values) -> str:
        """Return the name of a schedule that has none; raise InvalidInput if no field can provide one."""
        texts = (" ".join(values[self.input_of(field)].split()) for field in self.named_by)
        name = next(filter(None, texts), "")
        if self.named_by and not name:
            raise InvalidInput(field=self.named_by[-1], problem="must not be empty")
        return name[:LONGEST_NAME]

    def input_of(self, field: str) -> str:
        """Return the name of the input for a payload field."""
        return field

    def input_in(self, field: str, values: Values) -> str:
        """Do the same for inputs that depend on what was typed."""
        return self.input_of(field)

    def title_of(self, name: str, payload: Mapping[str, Any]) -> str:
        """Return the title of a schedule in lists: its name, or more if the name says too little."""
        return name


def form_of(kind: str) -> KindForm:
    """Return the form of a kind: its own, the standard one, or one without fields."""
    spec = known_specs().get(kind)
    if spec is not None and spec.form:
        form: KindForm = load(spec.form)
        return form
    return KindForm() if spec is None or not spec.payload else StandardForm(spec)


def may_create(spec: KindSpec) -> bool:
    return bool(spec.form or spec.payload) and form_of(spec.name).creates


class FormInput(NamedTuple):
    """An input of a form. `type` is text, number, checkbox, list (separated by commas) or json, also of a choice."""

    name: str
    label: str
    hint: str
    type: str
    required: bool
    choices: Sequence[str] = ()
    """The values to choose from, as JSON; none if anything can be typed."""


class StandardForm(KindForm):
    """A form with one input for each field of a payload model."""

    template = "standard_form.html"

    def __init__(self, spec: KindSpec) -> None:
        self.model = load(spec.payload)
        fields = fields_of(load(spec.payload))
        self.fields = tuple(_PREFIX + each.name for each in fields)
        texts = [each.name for each in fields if each.required and _input_type(each) == "text"]
        named_by = spec.text or next(iter(texts), "")
        self.named_by = (named_by,) if named_by else ()
        self.named_by_label = named_by.replace("_", " ") or "kind"

    def input_of(self, field: str) -> str:
        return _PREFIX + field if _PREFIX + field in self.fields else field

    def context(self, services: Services, caller: Caller, values: Values) -> dict[str, Any]:
        return {"inputs": [form_input(each, _PREFIX + each.name) for each in self._shown_fields()]}


_PREFIX: Final = "payload-"
"""Prefix of the names of the standard form's inputs, which might otherwise equal those of a trigger or a policy."""


_TYPES: Final = {"string": "text", "integer": "number", "number": "number", "boolean": "checkbox", "json": "json"}


def _input_type(field: PayloadField) -> str:
    if field.about.read_item is str:
        return "list"
    is_switch = field.input_type == "boolean"
    return "json" if is_switch and field.default is None and not field.required else _TYPES[field.input_type]


def form_input(field: PayloadField, name: str, *, checkboxes: bool = True) -> FormInput:
    """Return the input of this name for a field. Without `checkboxes`, true and false are chosen like other values."""
    type_, hint, label = _input_type(field), field.about.description, field.name.replace("_", " ")
    type_ = "json" if type_ == "checkbox" and not checkboxes else type_
    choices = [json.dumps(each) for each in field.input_schema.get("enum", ())]
    choices = ["true", "false"] if type_ == "json" and field.input_type == "boolean" else choices
    hints = {"list": " Separated by commas.", "json": "" if choices else " JSON."}
    if not field.required and type_ != "checkbox" and field.default is not None:
        hint += f" May be left empty: {json.dumps(field.default, ensure_ascii=False, default=str)}."
    hint = (hint + hints.get(type_, "")).strip()
    return FormInput(name, label[:1].upper() + label[1:], hint, type_, field.required, choices)


def _value(field: PayloadField, text: str) -> Any:
    """Return the value that was typed; an empty input means the default, and a required text may be empty."""
    kind, name = _input_type(field), field.name
    if kind == "checkbox":
        return bool(text)
    if not text.strip():
        return "" if kind == "text" and field.required else None
    if kind == "text":
        return text if field.about.is_text_input else text.strip()
    if kind == "list":
        return [item for item in map(str.strip, text.split(",")) if item] or None
    return number_of({name: text}, name) if kind == "number" else json_of({name: text}, name)


def _show(field: PayloadField, value: Any) -> str:
    type_ = _input_type(field)
    if type_ == "checkbox":
        return "on" if value else ""
    if value is None or (not field.required and value == field.default):
        return ""
    if type_ == "list" and isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if type_ == "json" else text_of(value)


def text_of(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def number_of(values: Values, name: str) -> float:
    """Return a number, as an integer if it was typed as one."""
    try:
        number = float(values[name].strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(field=name, problem="must be a number such as 15")
    return int(number) if number.is_integer() else number


def json_of(values: Values, name: str, type_: type[Any] | None = None) -> Any:
    """Return the JSON that was typed, of any type or of this one: list or dict."""
    text = values[name].strip()
    example = '["hello", 3]' if type_ is list else '{"words": 50}'
    try:
        value = json.loads(text) if text or type_ is None else type_()
    except (ValueError, RecursionError):
        value, type_ = None, type_ or dict
    if type_ is not None and not isinstance(value, type_):
        raise InvalidInput(field=name, problem=f"must be JSON such as {example}")
    return value
