"""JSON schemas in plain words: what a value may be, and the fields of an object, nested ones by dotted names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reference.markdown import code

Schema = Mapping[str, Any]
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}
_FORMATS = {"date-time": "ISO 8601 with offset"}


class Field(NamedTuple):
    name: str
    kind: str
    required: bool
    meaning: str

    def row(self) -> tuple[str, str, str]:
        return code(self.name), self.kind, self.meaning


def fields(schema: Schema, *, nulls: bool, within: str = "") -> Iterator[Field]:
    """Yield the fields of an object. `nulls` says whether null is mentioned; in a request it is the same as absent."""
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        whole = f"{within}{name}"
        yield Field(whole, words(inner, nulls=nulls), name in required, meaning(inner))
        yield from fields(inner, nulls=nulls, within=f"{whole}.")
        yield from fields(_items(inner), nulls=nulls, within=f"{whole}[].")


def words(schema: Schema, *, nulls: bool) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if choices:
        return _either([words(each, nulls=True) for each in choices], nulls)
    if "enum" in schema:
        return ", ".join(code(value) for value in schema["enum"] if value is not None)
    if "const" in schema:
        return code(schema["const"])
    kinds = schema.get("type", "any JSON")
    named = kinds if isinstance(kinds, list) else [kinds]
    return _either([_word(kind, schema, nulls) for kind in named], nulls) + _bounds(schema)


def _either(kinds: list[str], nulls: bool) -> str:
    kept = list(dict.fromkeys(kind for kind in kinds if nulls or kind != "null"))
    return " or ".join(kept)


def _word(kind: str, schema: Schema, nulls: bool) -> str:
    if kind == "array":
        return f"list of {_plural(words(schema['items'], nulls=nulls))}" if schema.get("items") else "list"
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    return _WORDS.get(kind, kind)


def _plural(word: str) -> str:
    return f"{word}s" if word in ("text", "object", "number", "whole number") else word


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f", {_number(low)} to {_number(high)}"
    if low is not None:
        return f", at least {_number(low)}"
    if schema.get("maxLength") is not None:
        return f", at most {schema['maxLength']} characters"
    return f", at most {schema['maxItems']}" if "maxItems" in schema else ""


def _number(value: float) -> str:
    """Return a number as text: whole numbers without decimals, and very large ones rounded."""
    return f"{value:g}" if abs(value) >= 2**53 else f"{int(value)}" if value == int(value) else f"{value:g}"


def meaning(schema: Schema) -> str:
    said = next((str(each["description"]) for each in (schema, *schema.get("anyOf", ())) if "description" in each), "")
    default = schema.get("default")
    if default in (None, {}, []):
        return said
    return f"{said} Default: {code(default)}.".strip()


def _items(schema: Schema) -> Schema:
    items = schema.get("items", {})
    return items if isinstance(items, Mapping) else {}
