"""The questions, their answers and what the store has to contain afterwards, as they stand in the files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

FILE = Path(__file__).with_name("evaluation.xml")
MANAGING = Path(__file__).with_name("managing.xml")
OPERATING = Path(__file__).with_name("operating.xml")
HAPPENINGS = Path(__file__).with_name("happenings.xml")


class Change(NamedTuple):
    """A difference that an answer has to leave in the store."""

    what: str
    """A `schedule` that is new or changed, a `deleted` one, a `run`, or a `hook`."""
    name: str
    fields: dict[str, str]
    """Some of its fields afterwards, such as `status` or `policy.max_attempts`; empty for none."""


class Question(NamedTuple):
    text: str
    answer: str
    store: str = "empty"
    """The name of the prepared store on which it is asked."""
    changes: tuple[Change, ...] | None = ()
    """Everything that differs afterwards; None where that is not checked."""

    def accepts(self, given: str) -> bool:
        """Return whether an answer is right, ignoring blanks, case and a final full stop."""
        return _plain(given) == _plain(self.answer)


def read_questions(*files: Path) -> list[Question]:
    """Read the questions of these files, or all."""
    roots = [ElementTree.parse(file).getroot() for file in files or (FILE, MANAGING, OPERATING, HAPPENINGS)]  # noqa: S314 - our own files
    return [_question(pair, root.get("checked") == "yes") for root in roots for pair in root.iter("qa_pair")]


def _question(pair: ElementTree.Element, checked: bool) -> Question:
    changes = tuple(_change(each) for each in pair.iterfind("after/*")) if checked else None
    return Question(_text(pair, "question"), _text(pair, "answer"), pair.get("store", "empty"), changes)


def _change(element: ElementTree.Element) -> Change:
    fields = dict(element.attrib)
    return Change(element.tag, fields.pop("name"), fields)


def _text(pair: ElementTree.Element, name: str) -> str:
    return " ".join((pair.findtext(name) or "").split())


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().rstrip(".").casefold()
