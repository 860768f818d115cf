"""The task `fetch`: the text of a web page, by the guarded way. Runs in a process of its own, which can be killed."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from duetime.core.errors import DuetimeError

if TYPE_CHECKING:
    from duetime.delivery.http import Answer

LARGEST: Final = 1024 * 1024
"""Bytes of a page that are read."""
PATIENCE: Final = 20.0
_CHARSET: Final = re.compile(r";\s*+charset\s*+=\s*+[\"']?+([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
_READABLE: Final = frozenset({
    "ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "mac-roman",
    "gb2312", "gbk", "gb18030", "big5", "big5hkscs", "shift_jis", "cp932", "euc_jp", "iso2022_jp", "euc_kr", "cp949",
    *(f"iso8859-{number}" for number in range(1, 17)), *(f"cp125{number}" for number in range(9)), "cp874",
})  # fmt: skip
"""Encodings of web pages. Python knows others, some of which take quadratic time or are no encodings of text."""


class NotFetched(DuetimeError):
    """The page could not be fetched."""

    code = "not_fetched"


def fetch(
    url: Annotated[str, "an http or https address that anybody can reach"], *, allowed_hosts: Sequence[str] = ()
) -> str:
    """Fetches a page and returns its text; of HTML, what a reader sees. Private addresses are refused."""
    from duetime.kinds.page_text import page_text

    answer = _answer(url, allowed_hosts)
    if not 200 <= answer.status < 300:
        raise NotFetched(f"the page was answered with status {answer.status}; redirects are not followed")
    content_type = answer.headers.get("content-type", "")[:1000]
    text = answer.body.decode(charset_of(content_type), errors="replace")
    return page_text(text) if "html" in content_type else text


def _answer(url: str, allowed_hosts: Sequence[str]) -> Answer:
    from duetime.core.clock import SystemClock
    from duetime.delivery.guard import Guard
    from duetime.delivery.http import Call, CallFailed, Http

    http = Http(SystemClock(), Guard(tuple(allowed_hosts)), connections=1, largest=LARGEST)
    try:
        return http.send(Call("GET", url, {"Accept": "text/*, application/json"}, b"", PATIENCE))
    except CallFailed as failed:
        raise NotFetched(failed.reason) from None
    finally:
        http.close()


def charset_of(content_type: str) -> str:
    """As the answer names it; what is no encoding of web pages is read as UTF-8."""
    named = _CHARSET.search(content_type)
    try:
        name = codecs.lookup(named[1]).name if named is not None else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in _READABLE else "utf-8"
