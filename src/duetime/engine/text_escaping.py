"""Escaping of characters in foreign text that a terminal would interpret, or that a reader would not see."""

from __future__ import annotations

import re

# Control characters (including terminal escapes), line separators, marks that change the reading direction, and
# invisible characters, with which text can be hidden in text.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: object) -> str:
    """Return one line in which nothing moves the cursor, changes a color or is hidden."""
    return UNSAFE.sub(escape, str(text))


def escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()
