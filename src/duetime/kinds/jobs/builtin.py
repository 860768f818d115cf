"""The tasks that come with Duetime: `fetch`, `echo`, `shorten`, and those for operators."""

from __future__ import annotations

import codecs
import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.kinds.jobs.registry import Task

if TYPE_CHECKING:
    from duetime.settings import Settings


LARGEST: Final = 1024 * 1024
"""Maximum bytes of a page that are read."""
PATIENCE: Final = 20.0
_CHARSET: Final = re.compile(r";\s*+charset\s*+=\s*+[\"']?+([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
_READABLE: Final = frozenset({
    "ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "mac-roman",
    "gb2312", "gbk", "gb18030", "big5", "big5hkscs", "shift_jis", "cp932", "euc_jp", "iso2022_jp", "euc_kr", "cp949",
    *(f"iso8859-{number}" for number in range(1, 17)), *(f"cp125{number}" for number in range(9)), "cp874",
})  # fmt: skip
"""Accepted encodings. Python has others, some of which take quadratic time or do not encode text."""


class NotFetched(DuetimeError):
    """The page could not be fetched."""

    code = "not_fetched"


def fetch(
    url: Annotated[str, "an http or https address that anybody can reach"], *, allowed_hosts: Sequence[str] = ()
) -> str:
    """Fetches a page and returns its text; of HTML, what a reader sees. Private addresses are refused."""
    from duetime.engine.clock import SystemClock
    from duetime.net.client import Call, CallFailed, Http
    from duetime.net.ssrf_guard import Guard

    http = Http(SystemClock(), Guard(tuple(allowed_hosts)), connections=1, largest=LARGEST)
    try:
        answer = http.send(Call("GET", url, {"Accept": "text/*, application/json"}, b"", PATIENCE))
    except CallFailed as failed:
        raise NotFetched(failed.reason) from None
    finally:
        http.close()
    if not 200 <= answer.status < 300:
        raise NotFetched(f"the page was answered with status {answer.status}; redirects are not followed")
    content_type = answer.headers.get("content-type", "")[:1000]
    text = answer.body.decode(charset_of(content_type), errors="replace")
    return page_text(text) if "html" in content_type else text


def charset_of(content_type: str) -> str:
    """Return the encoding that the content type names, or UTF-8 if it names none that is accepted."""
    named = _CHARSET.search(content_type)
    try:
        name = codecs.lookup(named[1]).name if named is not None else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in _READABLE else "utf-8"


# Extraction of the readable text from HTML.

LONGEST: Final = 1024 * 1024
"""Maximum characters of a page that are parsed."""
_UNSEEN: Final = frozenset({"script", "style", "head", "template", "noscript", "svg"})
_RAW: Final = frozenset({"script", "style"})
"""Elements whose content is not markup."""
_BREAKS: Final = frozenset({"p", "br", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article"})
_NAME: Final = re.compile(r"/?[a-zA-Z][^\s/>]{0,99}+")
_BEGIN: Final = re.compile(r"<(?=/?[a-zA-Z]|[!?])")
_MARK: Final = re.compile(r"=\s*+[\"']|>")
"""The start of a quoted attribute value, or the end of the tag."""
_RAW_END: Final = re.compile(r"</(script|style)(?=[\s/>])", re.IGNORECASE)


def page_text(page: str) -> str:
    reader = _Reader(page[:LONGEST])
    reader.read()
    lines = (" ".join(line.split()) for line in html.unescape("".join(reader.parts)).split("\n"))
    return "\n".join(line for line in lines if line)


class _Reader:
    """Extracts text in linear time: every search starts where the last one ended, and what was not found up to the
    end of the page is not searched for again."""

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
            assert name is not None  # _BEGIN requires a letter here
            self._tag(name[0].lower(), name.end())

    def _pass_over(self, end: str, skip: int) -> None:
        """Skip to the end of a comment or declaration, or to the end of the page if it is not closed."""
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
        """Return the position after the first `>` outside quotes; an unclosed quote is ignored."""
        while (mark := _MARK.search(self._page, position)) is not None:
            if mark[0] == ">":
                return mark.end()
            closing = self._find(mark[0][-1], mark.end())
            position = mark.end() if closing < 0 else closing + 1
        return len(self._page)

    def _skip_raw(self, name: str) -> None:
        """Skip to the element's end tag."""
        position = self._position
        while (found := _RAW_END.search(self._page, position)) is not None and found[1].lower() != name:
            position = found.end()
        self._position = len(self._page) if found is None else found.start()

    def _close(self, name: str) -> None:
        if self._open[name]:  # tolerate tags that are closed in the wrong order
            while self._order:
                closed = self._order.pop()
                self._open[closed] -= 1
                if closed == name:
                    return
        elif name in _BREAKS:
            self._text("\n")


def echo(value: Any = None) -> Any:
    """Returns what it is given: to try a schedule out, or to begin a pipeline with."""
    return value


def shorten(text: Annotated[str, "the text to cut"], words: Annotated[int, "how many words to keep"] = 50) -> str:
    """Cuts a text after a number of words. What was cut is marked with three dots."""
    if words < 1:
        raise InvalidInput(field="words", problem=f"must be at least 1, not {words}")
    kept = str(text).split(maxsplit=words)  # the previous step may have returned any type
    return " ".join(kept) if len(kept) <= words else " ".join(kept[:words]) + " ..."


TASKS = (Task(echo, portable=True), Task(shorten, portable=True))


def operator_tasks(backup: Callable[[], dict[str, Any]], prune: Callable[[], dict[str, Any]]) -> tuple[Task, ...]:
    """Return the tasks for operators. Backup path and retention come from the settings, never from arguments."""

    def backup_database() -> dict[str, Any]:
        """Writes a copy of the database to the place that the settings name."""
        return backup()

    def prune_history() -> dict[str, Any]:
        """Deletes ended runs that are older than the settings say."""
        return prune()

    return Task(backup_database, operator=True), Task(prune_history, operator=True)


def fetch_task(settings: Settings) -> Task:
    """Return the task `fetch`. It runs in its own process: a hostile page blocks nothing, and a timeout ends it."""
    constants = {"allowed_hosts": list(settings.allowed_hosts)}
    return Task(fetch, isolation="process", portable=True, constants=constants)
