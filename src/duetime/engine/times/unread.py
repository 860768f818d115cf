"""Reads recurring phrases. An error names the part of a phrase that was not understood instead of the whole phrase."""

from __future__ import annotations

import re
from typing import Final

from duetime.engine.clock import Instant
from duetime.engine.errors import UnreadableTime
from duetime.engine.times.grammar import DAY_PARTS, MONTH_NUMBERS, WEEKDAY_NUMBERS, plain_words
from duetime.engine.times.parser import read_time, unreadable
from duetime.engine.times.recurrence import (
    EXAMPLES,
    EXCEPTIONS,
    MAX_PHRASE_LENGTH,
    SAY_AT_WHAT_TIME,
    NoRule,
    Recurrence,
    parse_recurrence,
    unclear,
)

_MAX_WORDS: Final = 20
"""Phrases with more words are named whole, because finding a part takes time."""
_ANY_TIME: Final = Instant(2_000_000_000 * 10**6)
_NUMBER = re.compile(r"[\d:./+-]*(?:\d(?:st|nd|rd|th|am|pm|[tz])?)?,?", re.ASCII)
_VOCABULARY: Final = frozenset((
    *" ".join(DAY_PARTS).split(), "every", "each", "other", "second", "minute", "hour", "day", "week", "month", "year",
    "hourly", "daily", "weekly", "monthly", "yearly", "annually", "biweekly", "fortnightly", "weekday", "workday",
    "weekend", "business", "working", "first", "third", "fourth", "fifth", "last", "next", "this", "coming", "today",
    "tomorrow", "yesterday", "tonight", "now", "noon", "midday", "midnight", "am", "pm", "a", "an", "the", "at", "on",
    "in", "of", "and", "to", "from", "between", "through", "until", "till", "starting", "beginning", "ago", "after",
    "half", "past", "quarter", "new", "year's", "eve",
))  # fmt: skip
"""Words that have a meaning in times and rules, without those of numbers, weekdays and months."""


def read_recurrence(text: str) -> Recurrence | None:
    """Parse a recurring phrase as `parse_recurrence` does, but raise UnreadableTime about what cannot be read."""
    if len(text) > MAX_PHRASE_LENGTH:
        raise unclear(text, f"it is too long; write it like {EXAMPLES}.")
    try:
        return parse_recurrence(text)
    except NoRule:
        part = unread_part(text)
        is_exception = part.lower().startswith(("except ", "but not ", "excluding "))
        hint = EXCEPTIONS if is_exception else f"write it like {EXAMPLES}."
        raise unclear(part, hint, "" if part != text else " as a rule") from None


def unread_part(text: str) -> str:
    """Return the shortest part of a phrase that contains all words without a meaning and without which the phrase can
    be read, such as "except 25 december"; the words without a meaning if there is none, and the whole phrase if every
    word has a meaning."""
    words = text.split()
    unknown = [place for place, word in enumerate(words) if not _is_known(word)]
    if not unknown or len(words) > _MAX_WORDS or len(text) > MAX_PHRASE_LENGTH:
        return text
    first, last = unknown[0], unknown[-1] + 1
    parts = [(begin, end) for begin in range(first + 1) for end in range(last, len(words) + 1)]
    for begin, end in sorted(parts, key=lambda part: (part[1] - part[0], -part[0])):
        if _is_read(" ".join(words[:begin] + words[end:])):
            return " ".join(words[begin:end])
    return " ".join(words[first:last])


def about_part(text: object, error: UnreadableTime) -> UnreadableTime:
    """Return the error about a time as one about the part of it that was not understood."""
    part = unread_part(text) if isinstance(text, str) and error.message == unreadable(text).message else text
    return error if part == text else unreadable(part)


def _is_known(word: str) -> bool:
    plain = plain_words(word).strip(",.").partition(" ")[0]  # the name of a holiday becomes a date
    names = {plain, plain.removesuffix("s")}
    is_name = names & _VOCABULARY or names & WEEKDAY_NUMBERS.keys() or names & MONTH_NUMBERS.keys()
    return bool(is_name or _NUMBER.fullmatch(plain))


def _is_read(text: str) -> bool:
    """Return whether a phrase is a rule or a time, if perhaps an incomplete one."""
    try:
        return bool(parse_recurrence(text) or (text and read_time(text, zone="UTC", now=_ANY_TIME)))
    except NoRule:
        return False
    except UnreadableTime as error:
        return error.message == SAY_AT_WHAT_TIME
