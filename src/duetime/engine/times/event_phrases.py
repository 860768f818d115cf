"""The grammar of phrases about events, such as "on github.push where ref = refs/heads/main at most every 10m"."""

from __future__ import annotations

import re
from typing import Any, Final

from duetime.engine.clock import Instant
from duetime.engine.errors import UnreadableTime
from duetime.engine.model import EVENT_NAME
from duetime.engine.times import read_time
from duetime.engine.times.recurrence import parse_recurrence
from duetime.engine.triggers.event import COMPARISON, OWN_TASK

EXAMPLE: Final = "on github.push where ref = refs/heads/main at most every 10m"
MAX_EVENT_PHRASE_LENGTH: Final = 1000
_LIMIT: Final = r"(?:,? at most (?:once )?(?:every|per|each|an|a|in) (?P<cooldown>.+))?"
_NAME: Final = rf"(?P<name>\*|{EVENT_NAME}(?:(?<=\.)\*)?)"
_PHRASE = re.compile(
    rf"on (?:event |the event )?{_NAME}(?: (?:where|if|when|with) (?P<where>.+?))?{_LIMIT}", re.IGNORECASE
)
_CHAIN = re.compile(
    r"(?:after|once|when|whenever) (?:the )?(?:job |prompt |schedule )?(?P<name>.{1,200}?) (?:has |is |was )?(?:"
    r"(?P<succeeds>(?:completes|completed|ends|ended|finishes|finished|done) successfully|"
    rf"succeeds|succeeded|successful|completes|completed)|(?P<fails>fails|failed)|ends|ended|finishes|finished|done){_LIMIT}",
    re.IGNORECASE,
)
_BARE = r"""[^\s"'](?:(?!\s(?:and|or)\s).)*?"""
_VALUE = rf"""(?:"[^"]*"|'[^']*'|{_BARE})"""
_CONDITION = re.compile(
    r"([^\s=!<>]+)(?:\s+(?:exists|is present)"
    rf"|\s*(?:==?|\bis\b(?!\s+not\s))\s*({_VALUE}(?:\s+or\s+{_VALUE})*))(?:,?\s+and\s+|$)",
    re.IGNORECASE,
)
_NEXT_PATH = re.compile(r"(?:when |where |if )?[\w.-]+(?:\s+(?:is|exists)\b|\s*(?:[<>]|!?=))", re.IGNORECASE)
"""How a value after `or` begins that its author means as another condition. In quotes, it is a value."""
_AFTER_COMMA = re.compile(rf"[^\"'].*?,(?:\s+|(?=[\w.-]+\s)){_NEXT_PATH.pattern}", re.IGNORECASE)
"""How a value without quotes begins in which its author means a comma as `and`."""
_OR = re.compile(rf"({_VALUE})(?:\s+or\s+|$)", re.IGNORECASE)


def read_happening(text: str) -> tuple[str, dict[str, Any]] | None:
    """Return the type and the configuration of a trigger, of a phrase such as "on github.push" or "after backup
    succeeds"; None for a phrase that is about none or can also be read as a time: "on friday"."""
    text = " ".join(text.split())
    match = (_PHRASE.fullmatch(text) or _CHAIN.fullmatch(text)) if len(text) <= MAX_EVENT_PHRASE_LENGTH else None
    if match is None:
        if text[:6].lower() == "after ":
            advice = "write it like after backup succeeds, fails or ends; a time from now is written in 2 hours"
            raise UnreadableTime(f"{text[:60]!r} does not say after what; {advice}", field="when")
        return None
    parts, config = match.groupdict(), dict[str, Any]()
    if parts["cooldown"] is not None:
        config["at_most_every"] = parts["cooldown"]
    if match.re is _CHAIN:
        outcome = next((each for each in ("succeeds", "fails") if parts[each]), "ends")
        return "after", {"schedule": parts["name"].strip("\"'"), "outcome": outcome, **config}
    if parts["where"] is not None:
        config["where"] = _conditions(parts["where"])
    is_time = not config and parts["name"].isalpha() and _is_time(text)
    return None if is_time else ("event", {"event": parts["name"], **config})


def _is_time(text: str) -> bool:
    try:
        if parse_recurrence(text) is None:
            read_time(text, zone="UTC", now=Instant(0))
    except Exception:  # neither a rule nor a time
        return False
    return True


def _conditions(text: str) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    place = 0
    while place < len(text):
        match = _CONDITION.match(text, place)
        written = _OR.findall(match[2]) if match and match[2] else []
        is_joined = any(map(_AFTER_COMMA.match, written))
        is_other, compares = any(map(_NEXT_PATH.match, written[1:])), any(map(COMPARISON.fullmatch, written))
        if match is None or match[1] in conditions or is_joined or is_other or compares:
            problem = "is named twice; give its values as a or b" if match else "is no condition such as path = value"
            if is_other:
                problem = 'joins two paths by "or"; give each a schedule of its own, or put one value into quotes'
            elif is_joined:
                problem = 'joins two paths by ","; write "and" instead, or put the value into quotes'
            elif compares:
                problem = "compares; put a text that only looks so into quotes"
            about = f'"{text[place : place + 60]}" {problem}, as in "{EXAMPLE}"'
            raise UnreadableTime(f"{about}; {OWN_TASK}.", field="when")
        values = [each[1:-1] if each[0] in "\"'" else each for each in written]
        is_any, is_exact = not values or match[2] == "*", values == ["*"] or any(map(COMPARISON.fullmatch, values))
        conditions[match[1]] = "*" if is_any else values if len(values) > 1 or is_exact else values[0]
        place = match.end()
    return conditions
