"""Changes to one object of a JSON file, which may have comments and trailing commas, as text; everything else in the
file stays unchanged, to the byte."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_TEXT = r'("(?:[^"\\\r\n]|\\.)*")'
_COMMENT = re.compile(rf"{_TEXT}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf'{_TEXT}|(?<=["\w}}\]])\s*,(?=\s*[}}\]])')
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class UnreadableFile(Exception):
    """A text that is not JSON, or that cannot be changed here. The message says why."""


class Node(NamedTuple):
    """A value and its position in the text."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None = None
    """The members, if it is an object."""


class Member(NamedTuple):
    key: str
    start: int
    node: Node
    comma: int | None
    """The position of the comma after it."""


def parse(text: str) -> Node | None:
    """Return the value of a text; None if there is nothing but comments."""
    plain = _blank(_COMMENT, text)
    strict = _blank(_LAST_COMMA, plain)
    if not plain.strip():
        return None
    try:
        json.loads(strict)  # refuses what the positions below would not
        return _node(plain, strict, _after_space(plain, 0))
    except json.JSONDecodeError as error:
        raise _unreadable(error.msg[:1].lower() + error.msg[1:], text, error.pos) from None
    except RecursionError:
        raise UnreadableFile("it is nested too deeply") from None


def _unreadable(problem: str, text: str, position: int) -> UnreadableFile:
    place = json.JSONDecodeError(problem, text, position)
    return UnreadableFile(f"line {place.lineno}, column {place.colno}: {problem}")


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Replace what a pattern matches outside texts in quotes with as many spaces; lines stay."""
    return pattern.sub(lambda match: match[0] if match[1] else re.sub(r"[^\r\n]", " ", match[0]), text)


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _node(plain: str, strict: str, start: int) -> Node:
    """Return the value at a position of valid JSON; `plain` still has the commas after the last members."""
    value, end = _DECODER.raw_decode(strict, start)
    if not isinstance(value, dict):
        return Node(start, end, value)
    members, position = [], _after_space(plain, start + 1)
    while plain[position] != "}":
        key, colon = _DECODER.raw_decode(strict, position)
        node = _node(plain, strict, _after_space(plain, _after_space(plain, colon) + 1))
        comma = _after_space(plain, node.end)
        has_comma = plain[comma] == ","
        members.append(Member(key, position, node, comma if has_comma else None))
        position = _after_space(plain, comma + 1) if has_comma else comma
    return Node(start, end, value, tuple(members))


def _comments(text: str) -> Counter[str]:
    return Counter(match[0] for match in _COMMENT.finditer(text) if not match[1])


# Changes.


def with_entry(text: str, path: tuple[str, str], entry: Mapping[str, Any], drop: Sequence[str] = ()) -> str:
    """Return the text with these values in the object at `path`; its other values stay, except for those named in
    `drop`."""
    table, name = path
    root = parse(text)
    if root is None:
        return f"{text.rstrip()}{_newline(text) if text.strip() else ''}{_dump({table: {name: dict(entry)}}, text)}\n"
    _, member, _ = _locate(root, path)
    others = root.value.get(table, {})
    values = member.node.value if member is not None else None
    if not isinstance(values, dict):
        changed, values = _with_value(text, path, dict(entry)), {}
    else:
        changed = text
        for key, value in {**entry, **{each: None for each in drop if each not in entry}}.items():
            changed = _with_value(changed, (*path, key), value)
    stay = {key: value for key, value in values.items() if key not in drop}
    return _check(text, changed, {**root.value, table: {**others, name: {**stay, **entry}}})


def without_entry(text: str, path: tuple[str, str]) -> str:
    """Return the text without the object at `path`."""
    table, name = path
    root = parse(text)
    if root is None:
        return text
    servers, member, _ = _locate(root, path)
    if member is None:
        return text
    rest = {key: value for key, value in servers.value.items() if key != name}
    inside = text[member.start : member.node.end]
    return _check(text, _remove(text, servers, member), {**root.value, table: rest}, lost=inside)


def _with_value(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with this value at a path; with None, without any."""
    node, member, missing = _locate(parse(text), path)
    if member is None:
        if value is None:
            return text
        for key in reversed(missing[1:]):
            value = {key: value}
        return _insert(text, node, missing[0], value)
    start, end, present, _ = member.node
    if value is not None and present == value:
        return text
    _refuse_comments(text, member.node)
    if value is None:
        return _remove(text, node, member)
    return text[:start] + _dump(value, text, _indent(text, start)) + text[end:]


def _locate(root: Node | None, path: Sequence[str]) -> tuple[Node, Member | None, Sequence[str]]:
    """Return the innermost object on a path, its member at the end of the path, and the names that are missing."""
    assert root is not None
    node, member, owner = root, None, "the file"
    for place, key in enumerate(path):
        node = node if member is None else member.node
        if node.members is None:
            raise UnreadableFile(f"{owner} is not an object in braces")
        members = [each for each in node.members if each.key == key]
        if len(members) > 1:
            raise UnreadableFile(f"it has {key!r} twice")
        if not members:
            return node, None, path[place:]
        member, owner = members[0], key
    return node, member, ()


def _insert(text: str, node: Node, key: str, value: Any) -> str:
    """Add a member at the end of an object, in the layout of the object."""
    members, closing, newline = node.members or (), node.end - 1, _newline(text)
    last = members[-1] if members else None
    comma = "" if last is None or last.comma is None else ","
    if last is not None and not comma:
        text, closing = f"{text[: last.node.end]},{text[last.node.end :]}", closing + 1
    content = node.start + 1 + len(text[node.start + 1 : closing].rstrip())
    if last is not None and "\n" not in text[node.start : closing]:
        return f"{text[:content]} {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}{comma}{text[content:]}"
    outer = _indent(text, node.start)
    inner = _indent(text, members[0].start) if members and _begins_line(text, members[0].start) else outer + _unit(text)
    member = f"{newline}{inner}{json.dumps(key)}: {_dump(value, text, inner)}{comma}"
    if "\n" not in text[content:closing]:  # the brace gets its own line
        return f"{text[:content]}{member}{newline}{outer}{text[closing:]}"
    end = text.rindex(newline, content, closing)
    return f"{text[:end]}{member}{text[end:]}"


def _refuse_comments(text: str, node: Node) -> None:
    if _comments(text[node.start : node.end]):
        raise _unreadable("there are comments inside what has to change", text, node.start)


def _remove(text: str, node: Node, member: Member) -> str:
    """Remove a member with one comma, and its line if nothing else is on it."""
    start, end, comma = member.start, member.node.end, member.comma
    if comma is not None:
        text = text[:start] + text[end:comma] + text[comma + 1 :]
    else:  # the last one, so that the comma before it goes
        before = [each.comma for each in node.members or () if each.comma is not None]
        comma = before[-1] if before else start
        between = text[comma + 1 : start]
        text = text[:comma] + (between if between.strip(" \t") else "") + text[end:]
        start = comma + len(between) if between.strip(" \t") else comma
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", start)
    if first and last >= 0 and not text[first:last].strip():
        return text[:first] + text[last + 1 :]
    return text


def _check(before: str, after: str, expected: Any, lost: str = "") -> str:
    """Return the text after the change. A text with other values, or with a comment missing, is never returned."""
    result = parse(after)
    missing = _comments(before) - _comments(after) - _comments(lost)
    if result is None or result.value != expected or missing:
        raise UnreadableFile("it is written in a way that cannot be changed safely")
    return after


# Layout.


def _dump(value: Any, text: str, indent: str = "") -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip(" \t")


def _unit(text: str) -> str:
    """Return one level of indentation, as used by the first indented name."""
    match = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return match[1] if match else "  "
