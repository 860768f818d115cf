"""The tools that an agent may use besides Duetime's own: its settings allow them, and a schedule can narrow them.

Patterns only support `*`, so that it can be decided exactly whether one pattern matches every text that another one
matches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Self

from duetime.engine import patterns
from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.scopes import Scopes, common
from duetime.settings import AgentSettings

_LISTS = ("tools", "commands", "skills", "env")
_MOST = 100
"""Entries of one list."""
_LONGEST = 500
"""Characters of one entry."""
EXAMPLE = '{"tools": ["github.get_*"], "web": false}'


class Allowance(NamedTuple):
    tools: tuple[str, ...] = ()
    """Patterns of tools of the user's MCP servers, as server.tool."""
    commands: tuple[str, ...] = ()
    """Patterns of commands, as one text with single spaces."""
    web: bool = False
    skills: tuple[str, ...] = ()
    """Names of skills."""
    folder: str = ""
    """Working folder; empty means an empty folder of its own."""
    env: tuple[str, ...] = ()
    """Names of environment variables."""
    scopes: Scopes = ()
    """Scopes of the token with which it uses Duetime's own tools; none leave these as they are."""

    @classmethod
    def of_agent(cls, agent: AgentSettings) -> Self:
        """Return what the settings of an agent allow."""
        every = tuple(f"{server}.*" for server in agent.servers)
        named = tuple(tool if "." in tool else f"{tool}.*" for tool in agent.tools)
        folder = str(Path(agent.folder).expanduser()) if agent.folder else ""
        skills = tuple(PurePath(each).name for each in agent.skills)
        return cls(named or every, agent.commands, agent.web, skills, folder, agent.env)

    @classmethod
    def stored(cls, text: str | Mapping[str, Any] | None) -> Self | None:
        """Return an allowance that `view` wrote; parts that it does not name are not allowed. None stays None."""
        parts = json_object(text) if isinstance(text, str) else text
        if text is None:
            return None
        known: dict[str, Any] = {name: parts[name] for name in cls._fields if parts and name in parts}
        lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        return cls()._replace(**known | lists)

    def view(self) -> dict[str, Any]:
        """Return every part as plain JSON; scopes only if there are any."""
        parts = {name: list(part) if isinstance(part, tuple) else part for name, part in self._asdict().items()}
        return {name: part for name, part in parts.items() if name != "scopes" or part}

    def text(self) -> str:
        return json.dumps(self.view(), ensure_ascii=False, separators=(",", ":"))

    def with_asked(self, request: object) -> Self:
        """Return the allowance with the requested parts; the others stay. Raises InvalidInput, naming the part.
        `narrowed` decides whether so much is allowed, when a run begins."""
        return self._replace(**_checked(request))

    def lacks(self, other: Allowance) -> str:
        """Return the first thing that the other allows and this one does not; empty if there is none."""
        for name in _LISTS:
            own = getattr(self, name)
            for each in getattr(other, name):
                if not any(matches(pattern, each) for pattern in own):
                    return f"{name} {each!r}"
        if other.web and not self.web:
            return "the web"
        if other.folder and not _is_within(other.folder, self.folder):
            return f"the folder {other.folder!r}"
        beyond = set(other.scopes) ^ set(common(self.scopes, other.scopes))
        return "the scopes" if beyond else ""

    def narrowed(self, other: Allowance | None) -> Self:
        """Return what both allow."""
        if other is None:
            return self
        folders = (self.folder, other.folder), (other.folder, self.folder)
        return self._replace(
            **{name: _common(getattr(self, name), getattr(other, name)) for name in _LISTS},
            web=self.web and other.web,
            scopes=common(self.scopes, other.scopes),
            folder=next((inner for inner, outer in folders if inner and _is_within(inner, outer)), ""),
        )

    def allows_tool(self, server: str, tool: str) -> bool:
        return any(matches(pattern, f"{server}.{tool}") for pattern in self.tools)

    def allows_command(self, words: Sequence[str]) -> bool:
        """Return whether a command is allowed. A program with a space in its name could be mistaken for another,
        allowed program followed by an argument, so it needs a pattern that allows everything."""
        if not words or ((len(words[0].split()) != 1 or words[0] != words[0].strip()) and "*" not in self.commands):
            return False
        return any(matches(pattern, " ".join(words)) for pattern in self.commands)

    @property
    def servers(self) -> list[str]:
        """The servers of which it may use tools."""
        return list(dict.fromkeys(pattern.partition(".")[0] for pattern in self.tools))


NOTHING_MORE = Allowance()
"""Duetime's own tools alone."""
EVERYTHING = Allowance(("*",), ("*",), True, ("*",), "/", ("*",))
"""Everything that any agent may use: what a schedule does not narrow is left to the settings of its agent."""


def matches(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern, in which `*` matches any characters; a pattern that ends with ` *` also
    matches without anything after it. A `*` covers no options and no paths that lead elsewhere, because they can make a
    program write files: such a word must match a word of the pattern that begins as it does.

    If the text is a pattern itself, this says whether it matches nothing more: its `*` is a character that only a `*`
    matches."""
    if not patterns.matches(pattern, text) and not (pattern.endswith(" *") and patterns.matches(pattern[:-2], text)):
        return False
    named = [word for word in pattern.split(" ") if _is_risky(word)]
    risky = [word for word in text.split(" ") if pattern != "*" and _is_risky(word)]
    return all(
        any(patterns.matches(each, word) and ("/.." in each or "/.." not in word) for each in named) for word in risky
    )


def _is_risky(word: str) -> bool:
    return word.startswith(("-", "/", "~", "..")) or "/.." in word


def _common(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of either list that the other one covers."""
    inner = [each for each in first if any(matches(pattern, each) for pattern in second)]
    inner += [each for each in second if any(matches(pattern, each) for pattern in first)]
    return tuple(dict.fromkeys(inner))


def _is_within(folder: str, outer: str) -> bool:
    if not outer:
        return False
    return Path(folder).resolve().is_relative_to(Path(outer).resolve())


def _checked(request: object) -> dict[str, Any]:
    """Return the parts of a request in their types. Raises InvalidInput."""
    if not isinstance(request, Mapping):
        raise InvalidInput(field="allow", problem=f"must be an object such as {EXAMPLE}")
    for name in request:
        if name not in Allowance._fields:
            raise InvalidInput(
                field="allow", problem=f"there is no {str(name)[:50]!r}; choose from {', '.join(Allowance._fields)}"
            )
    return {name: _part(name, value) for name, value in request.items()}


def _part(name: str, value: Any) -> Any:
    if name == "web" and isinstance(value, bool):
        return value
    if name == "folder" and isinstance(value, str) and (not value or PurePath(value).is_absolute()):
        return value
    is_list = name in (*_LISTS, "scopes") and isinstance(value, list | tuple) and len(value) <= _MOST
    if is_list and all(isinstance(each, str) and 0 < len(each) <= _LONGEST for each in value):
        return tuple(value)
    kinds = {"web": "true or false", "folder": "an absolute path"}
    raise InvalidInput(field=f"allow.{name}", problem=f"must be {kinds.get(name, 'a list of texts')}")
