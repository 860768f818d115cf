"""Bodies with holes: whatever an agent wrote stays the value that it was meant to be, in whichever format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import TypeAlias
from urllib.parse import quote_plus

Escape: TypeAlias = Callable[[str], str]

JSON = "application/json"
_HOLE = re.compile(r"\{(message|title|topic|id)\}")


def filled(template: str, values: Mapping[str, str], as_part: Escape) -> str:
    """In one pass: a message that itself says {id} stays as it is."""
    return _HOLE.sub(lambda hole: as_part(values[hole[1]]), template)


def content_type_of(template: str) -> str:
    """Where the operator named none. A text may begin with a hole, JSON cannot."""
    begins = template.lstrip()
    is_json = not begins or (begins[0] in "{[" and not _HOLE.match(begins))
    return JSON if is_json else "text/plain; charset=utf-8"


def escape_for(content_type: str) -> Escape:
    kind = content_type.lower()
    if "json" in kind:
        return _in_json
    if "x-www-form-urlencoded" in kind:
        return quote_plus
    if "xml" in kind or "html" in kind:
        return escape
    return lambda text: text


def _in_json(text: str) -> str:
    """What stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
