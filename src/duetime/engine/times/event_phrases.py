"""The grammar of phrases about events, such as "on github.push where ref = refs/heads/main at most every 10m"."""

from __future__ import annotations

import re
from typing import Any, Final

from duetime.engine.errors import UnreadableTime
from duetime.engine.model import EVENT_NAME

EXAMPLE: Final = "on github.push where ref = refs/heads/main at most every 10m"
MAX_EVENT_PHRASE_LENGTH: Final = 1000
_PHRASE = re.compile(
    rf"on (?:event |the event )?(\*|{EVENT_NAME}(?:(?<=\.)\*)?)(?: (?:where|if|when|with) (.+?))?"
    r"(?:,? at most (?:once )?(?:every|per|each|an|a|in) (.+))?",
    re.IGNORECASE,
)
_CHAIN = re.compile(
    r"(?:after|once|when|whenever) (?:the )?(?:job |prompt |schedule )?(.{1,200}?) (?:has |is |was )?"
    r"(succeeds|succeeded|successful|completes|completed|fails|failed|ends|ended|finishes|finished|done)"
    r"( successfully)?(?:,? at most (?:once )?(?:every|per|each|an|a|in) (.+))?",
    re.IGNORECASE,
)
_OUTCOMES: Final = {
    "succ": "succeeds", "comp": "succeeds", "fail": "fails", "ends": "ends", "ende": "ends", "fini": "ends",
    "done": "ends",
}  # fmt: skip
_BARE = r"""[^\s"'](?:(?!\s(?:and|or)\s).)*?"""
_VALUE = rf"""(?:"[^"]*"|'[^']*'|{_BARE})"""
_CONDITION = re.compile(
    rf"([^\s=]+)(?:\s*(?:==?|\bis\b)\s*({_VALUE}(?:\s+or\s+{_VALUE})*)|\s+(?:exists|is present))(?:\s+and\s+|$)",
    re.IGNORECASE,
)
_OR = re.compile(rf"({_VALUE})(?:\s+or\s+|$)", re.IGNORECASE)


def read_event_phrase(text: str) -> tuple[dict[str, Any], bool] | None:
    """Return the configuration of an event trigger, and whether the phrase can only be about an event: "on push" may be
    a misspelled day. Return None for a phrase that is about none."""
    match = _PHRASE.fullmatch(text) if len(text) <= MAX_EVENT_PHRASE_LENGTH else None
    if match is None:
        return None
    name, where, cooldown = match.groups()
    config: dict[str, Any] = {"event": name}
    if where is not None:
        config["where"] = _conditions(where)
    if cooldown is not None:
        config["at_most_every"] = cooldown
    return config, len(config) > 1 or not name.isalpha()


def read_chain_phrase(text: str) -> dict[str, Any] | None:
    """Return the configuration of a trigger that follows another schedule, of a phrase such as "after backup
    succeeds"; None for any other phrase."""
    match = _CHAIN.fullmatch(text) if len(text) <= MAX_EVENT_PHRASE_LENGTH else None
    if match is None:
        return None
    name, outcome, well, cooldown = match.groups()
    config = {"schedule": name.strip("\"'"), "outcome": "succeeds" if well else _OUTCOMES[outcome.lower()[:4]]}
    return config if cooldown is None else {**config, "at_most_every": cooldown}


def _conditions(text: str) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    place = 0
    while place < len(text):
        match = _CONDITION.match(text, place)
        if match is None or match[1] in conditions:
            problem = "is named twice; give its values as a or b" if match else "is no condition such as path = value"
            raise UnreadableTime(f'"{text[place : place + 60]}" {problem}, as in "{EXAMPLE}".', field="when")
        values = [each.strip("\"'") for each in _OR.findall(match[2])] if match[2] else []
        is_any = not values or match[2] == "*"
        conditions[match[1]] = "*" if is_any else values[0] if len(values) == 1 and values != ["*"] else values
        place = match.end()
    return conditions
