"""The questions and their answers, as they stand in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

FILE = Path(__file__).with_name("evaluation.xml")


class Question(NamedTuple):
    text: str
    answer: str

    def accepts(self, given: str) -> bool:
        """Return whether an answer is right, ignoring blanks, case and a final full stop."""
        return _plain(given) == _plain(self.answer)


def read_questions(file: Path = FILE) -> list[Question]:
    root = ElementTree.parse(file).getroot()  # noqa: S314 - our own file
    return [Question(_text(pair, "question"), _text(pair, "answer")) for pair in root.iter("qa_pair")]


def _text(pair: ElementTree.Element, name: str) -> str:
    return " ".join((pair.findtext(name) or "").split())


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().rstrip(".").casefold()
