"""The tasks that come with Duetime: `fetch`, `echo`, `shorten`, and those for operators."""

from __future__ import annotations

import codecs
import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from duetime.engine.clock import SystemClock
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.model import LOCAL
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Task
from duetime.net.calls import CallFailed, HttpAnswer, HttpCall

if TYPE_CHECKING:
    from duetime.net.client import Http
    from duetime.settings import Settings

Address: TypeAlias = Annotated[str, "an http or https address that anybody can reach"]
Get: TypeAlias = Callable[[str], HttpAnswer]
"""How a gate gets the answer of an address, without a client of its own."""

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


def fetch(url: Address, *, allowed_hosts: Sequence[str] = (), get: Get | None = None) -> str:
    """Fetches a page and returns its text; HTML is reduced to readable text. Private addresses are refused."""
    try:
        answer = get_once(url, allowed_hosts) if get is None else get(url)
    except CallFailed as failed:
        raise NotFetched(failed.reason) from None
    if not 200 <= answer.status < 300:
        raise NotFetched(f"the page was answered with status {answer.status}; redirects are not followed")
    content_type = answer.headers.get("content-type", "")[:1000]
    text = answer.body.decode(charset_of(content_type), errors="replace")
    return page_text(text) if "html" in content_type else text


def status(url: Address, *, allowed_hosts: Sequence[str] = (), get: Get | None = None) -> int:
    """Returns the status with which an address answers, such as 200; 0 if it does not answer."""
    try:
        return (get_once(url, allowed_hosts) if get is None else get(url)).status
    except CallFailed as failed:
        if failed.permanent or failed.untried:
            raise NotFetched(failed.reason) from None
        return 0


def get_once(url: str, allowed_hosts: Sequence[str]) -> HttpAnswer:
    with closing(guarded_http(allowed_hosts)) as http:
        return http.send(page_call(url))


def page_call(url: str, patience: float = PATIENCE, owner: str = LOCAL) -> HttpCall:
    return HttpCall("GET", url, {"Accept": "text/*, application/json"}, patience=patience, owner=owner)


def guarded_http(allowed_hosts: Sequence[str], connections: int = 1) -> Http:
    from duetime.net.client import Http
    from duetime.net.ssrf_guard import Guard

    return Http(SystemClock(), Guard(tuple(allowed_hosts)), connections=connections, largest=LARGEST)


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
_BREAKS: Final = frozenset({"p", "br", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article"})
_MARK: Final = re.compile(
    r"""
    <!--(?:.*?-->|.*)            # a comment; if it is not closed, it goes on to the end of the page
    | <[!?](?:[^>]*+>|.*)        # a declaration, likewise
    | <(/?[a-zA-Z][^\s/>]{0,99}+)
        (?:=\s*+(?:"[^"]*+"|'[^']*+')|[^>])*+ >?  # up to the first > outside quotes; an unclosed quote is ignored
    """,
    re.DOTALL | re.VERBOSE,
)
_NO_CHARACTER: Final = re.compile(r"&#[0-9]{8,}+;?")
"""References beyond the range of characters; Python refuses to parse very long numbers."""
_RAW_END: Final = {
    "script": re.compile(r"</script(?=[\s/>])", re.IGNORECASE),
    "style": re.compile(r"</style(?=[\s/>])", re.IGNORECASE),
}
"""Ends of the elements whose content is not markup."""


def page_text(page: str) -> str:
    """Return what a reader sees of a page. This takes linear time: no pattern backtracks, and each search starts where
    the last one ended."""
    page = page[:LONGEST]
    parts: list[str] = []
    unseen: list[str] = []
    """Open elements whose content is not shown; `depth` counts them by name."""
    depth: Counter[str] = Counter()
    position = 0
    while (mark := _MARK.search(page, position)) is not None:
        name = (mark[1] or "").lower()
        if not unseen:
            line_break = "\n" if name.removeprefix("/") in _BREAKS else ""
            parts.append(page[position : mark.start()] + line_break)
        position = mark.end()
        if name in _UNSEEN:
            unseen.append(name)
            depth[name] += 1
        while depth[name[1:]] and name.startswith("/"):  # tolerate tags that are closed in the wrong order
            closed = unseen.pop()
            depth[closed] -= 1
            if closed == name[1:]:
                break
        if name in _RAW_END:
            end = _RAW_END[name].search(page, position)
            position = len(page) if end is None else end.start()
    if not unseen:
        parts.append(page[position:])
    text = html.unescape(_NO_CHARACTER.sub("\ufffd", "".join(parts)))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def echo(value: Any = None) -> Any:
    """Returns what it is given: to try a schedule out, or to begin a pipeline with."""
    return value


def shorten(text: Annotated[str, "the text to cut"], words: Annotated[int, "how many words to keep"] = 50) -> str:
    """Cuts a text after a number of words. What was cut is marked with three dots."""
    if words < 1:
        raise InvalidInput(field="words", problem=f"must be at least 1, not {words}")
    parts = str(text).split(maxsplit=words)  # the previous step may have returned any type
    return " ".join(parts) if len(parts) <= words else " ".join(parts[:words]) + " ..."


def event(
    path: Annotated[str, "a path such as repository.name; without one, all data"] = "",
    default: Annotated[Any, "what to return if there is nothing at the path"] = None,
    *,
    context: TaskContext,
) -> Any:
    """Returns what the event that started the run contains at a path, to begin a pipeline with."""
    from duetime.engine.triggers.event import MISSING, value_at

    data = MISSING if context.event is None else context.event.data
    value = value_at(data, path) if path else data
    return default if value is MISSING else value


TASKS = (Task(echo, portable=True), Task(shorten, portable=True), Task(event))


def operator_tasks(backup: Callable[[], dict[str, Any]], prune: Callable[[], dict[str, Any]]) -> tuple[Task, ...]:
    """Return the tasks for operators. The backup path and the retention come from the settings, never from
    arguments."""
    copies = "Writes a copy of the database to the place that the settings name."
    prunes = "Deletes ended runs that are older than the settings say."
    return (
        Task(backup, name="backup_database", description=copies, operator=True),
        Task(prune, name="prune_history", description=prunes, operator=True),
    )


def web_tasks(settings: Settings) -> list[Task]:
    """Return the tasks that use the web. Each runs in its own process, so that a hostile page blocks nothing and a
    timeout ends it."""
    constants = {"allowed_hosts": list(settings.allowed_hosts), "get": None}
    return [
        Task(function, isolation="process", portable=True, constants=constants, web=True)
        for function in (fetch, status)
    ]
