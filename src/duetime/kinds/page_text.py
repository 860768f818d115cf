"""The readable text of a web page, for tasks that hand it on to people and agents.

Read in one pass, in linear time: `html.parser` of older Pythons takes quadratic time for hostile pages.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import Final

LONGEST: Final = 1024 * 1024
"""Characters of a page that are read."""
_UNSEEN: Final = frozenset({"script", "style", "head", "template", "noscript", "svg"})
_RAW: Final = frozenset({"script", "style"})
"""What is inside is no markup."""
_BREAKS: Final = frozenset({"p", "br", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article"})
_NAME: Final = re.compile(r"/?[a-zA-Z][^\s/>]{0,99}+")
_BEGIN: Final = re.compile(r"<(?=/?[a-zA-Z]|[!?])")
_MARK: Final = re.compile(r"=\s*+[\"']|>")
"""A value in quotes begins, or the tag ends."""
_RAW_END: Final = re.compile(r"</(script|style)(?=[\s/>])", re.IGNORECASE)


def page_text(page: str) -> str:
    reader = _Reader(page[:LONGEST])
    reader.read()
    lines = (" ".join(line.split()) for line in html.unescape("".join(reader.parts)).split("\n"))
    return "\n".join(line for line in lines if line)


class _Reader:
    """Every search begins where the last one ended, so that no character is looked at twice. What was searched for in
    vain up to the end of the page is not searched for again."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._position = 0
        self._missing: set[str] = set()
        self._open: Counter[str] = Counter()
        self._order: list[str] = []
        self.parts: list[str] = []

    def read(self) -> None:
        while self._position < len(self._page):
            begin = _BEGIN.search(self._page, self._position)
            if begin is None:
                self._text(self._page[self._position :])
                return
            self._text(self._page[self._position : begin.start()])
            self._position = begin.start()
            self._markup()

    def _text(self, text: str) -> None:
        if not self._order:
            self.parts.append(text)

    def _markup(self) -> None:
        if self._page.startswith("<!--", self._position):
            self._pass_over("-->", 4)
        elif self._page.startswith(("<!", "<?"), self._position):
            self._pass_over(">", 2)
        else:
            name = _NAME.match(self._page, self._position + 1)
            assert name is not None  # it begins with a letter
            self._tag(name[0].lower(), name.end())

    def _pass_over(self, end: str, skip: int) -> None:
        """To the end of a comment or a declaration; one that has none goes on to the end of the page."""
        found = self._find(end, self._position + skip)
        self._position = len(self._page) if found < 0 else found + len(end)

    def _find(self, text: str, begin: int) -> int:
        found = -1 if text in self._missing else self._page.find(text, begin)
        if found < 0:
            self._missing.add(text)
        return found

    def _tag(self, name: str, end: int) -> None:
        self._position = self._end_of_tag(end)
        if name.startswith("/"):
            self._close(name[1:])
        elif name in _UNSEEN:
            self._open[name] += 1
            self._order.append(name)
            if name in _RAW:
                self._skip_raw(name)
        elif name in _BREAKS:
            self._text("\n")

    def _end_of_tag(self, position: int) -> int:
        """After the `>` that is in no quotes; where a quote has no end, after the next `>`."""
        while (mark := _MARK.search(self._page, position)) is not None:
            if mark[0] == ">":
                return mark.end()
            closing = self._find(mark[0][-1], mark.end())
            position = mark.end() if closing < 0 else closing + 1
        return len(self._page)

    def _skip_raw(self, name: str) -> None:
        """To its end tag."""
        position = self._position
        while (found := _RAW_END.search(self._page, position)) is not None and found[1].lower() != name:
            position = found.end()
        self._position = len(self._page) if found is None else found.start()

    def _close(self, name: str) -> None:
        if self._open[name]:  # a page that closes in another order than it opened stays readable
            while self._order:
                closed = self._order.pop()
                self._open[closed] -= 1
                if closed == name:
                    return
        elif name in _BREAKS:
            self._text("\n")
