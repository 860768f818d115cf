"""The parts of a conversation with a model, in the format of any provider."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple


class Result(NamedTuple):
    """A tool's answer, as the model received it."""

    tool: str
    text: str
    is_error: bool = False


class Turn(NamedTuple):
    """One turn of the model."""

    text: str
    tools: Sequence[str]


class Call(NamedTuple):
    id: str
    tool: str
    arguments: dict[str, Any]
    space: str | None = None


class Answer(NamedTuple):
    text: str
    calls: Sequence[Call]
    usage: tuple[int, int]


@dataclass(frozen=True)
class Request:
    api: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(repr=False)
    model: str
    system: str
    said: Sequence[str]
    tools: Mapping[str, str]
    spaces: Mapping[str, str | None] = field(repr=False)
    """For tools that are offered in groups: the name of the group."""
    results: Sequence[Result]
    turns: Sequence[Turn]
    stream: bool


class Event(NamedTuple):
    """An event of a stream. A script may stop after a word of the text."""

    data: Any
    name: str | None = None
    is_word: bool = False

    def wire(self) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        named = f"event: {self.name}\n" if self.name else ""
        return f"{named}data: {data}\n\n".encode()


class Entry(NamedTuple):
    """One entry of a conversation, in any format."""

    role: str  # user, model, system or tool
    text: str = ""
    tool: str = ""
    is_error: bool = False


def words_of(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def text_of(content: Any) -> str:
    """Return the text of a text, or of a list of parts with texts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(text_of(part.get("text")) if isinstance(part, dict) else str(part) for part in content)


class Dialect(ABC):
    name: str
    path: str
    """The path after the version."""

    def counts(self, path: str) -> bool:
        """Return whether a request only asks for the number of tokens."""
        return False

    def count(self, tokens: int) -> dict[str, Any]:
        return {"input_tokens": tokens, "totalTokens": tokens}

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Request:
        entries = list(self.entries(body))
        turns = []
        for is_model, group in groupby(entries, key=lambda entry: entry.role == "model"):
            if is_model:
                own = list(group)
                turns.append(Turn("".join(each.text for each in own), [each.tool for each in own if each.tool]))
        offered = list(self.offered(body))
        return Request(
            api=self.name,
            path=path,
            headers=headers,
            body=body,
            model=self.model(path, body),
            system="\n".join(entry.text for entry in entries if entry.role == "system"),
            said=[entry.text for entry in entries if entry.role == "user"],
            tools={name: description for name, description, _ in offered},
            spaces={name: space for name, _, space in offered},
            results=[Result(entry.tool, entry.text, entry.is_error) for entry in entries if entry.role == "tool"],
            turns=turns,
            stream=self.streams(path, body),
        )

    def model(self, path: str, body: Mapping[str, Any]) -> str:
        return str(body.get("model", ""))

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))

    @abstractmethod
    def entries(self, body: Mapping[str, Any]) -> Iterator[Entry]: ...

    @abstractmethod
    def offered(self, body: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
        """Return the offered tools: name, description, group."""

    @abstractmethod
    def whole(self, answer: Answer, request: Request) -> dict[str, Any]: ...

    @abstractmethod
    def events(self, answer: Answer, request: Request) -> Iterator[Event]: ...


def parts_of(answer: Answer) -> list[str | Call]:
    return [*([answer.text] if answer.text or not answer.calls else []), *answer.calls]
