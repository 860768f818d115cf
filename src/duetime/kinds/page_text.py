"""The readable text of a web page, for tasks that hand it on to people and agents."""

from __future__ import annotations

from html.parser import HTMLParser

_UNSEEN = frozenset({"script", "style", "head", "template", "noscript", "svg"})
_BREAKS = frozenset({"p", "br", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article"})


def page_text(html: str) -> str:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).split("\n"))
    return "\n".join(line for line in lines if line)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen.append(tag)
        elif tag in _BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen:  # a page that closes in another order than it opened stays readable
            del self._unseen[self._unseen.index(tag) :]
        elif tag in _BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(data)
