"""Parses a time or a duration from text, such as "friday 9am" in a time zone. Every instant that it returns can be
displayed, and has a note if clocks change at that time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

from duetime.engine.clock import DAY, SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import UnreadableTime
from duetime.engine.times.grammar import (
    DAY_NAMES,
    DAY_PARTS,
    NOON,
    ClockWords,
    DateWords,
    coming_date,
    month_later,
    plain_words,
    read_clock,
    read_date,
    read_days_ahead,
    read_iso,
    read_months,
    read_relative,
    shift_day,
)
from duetime.engine.times.wall_clock import DAY_SECONDS, LATEST, wall_clock
from duetime.engine.times.zones import format_local, known_zone
from duetime.engine.value_class import NamedTuple, pattern

_EPOCH_DAY = date(1970, 1, 1)
_ABBREVIATION = pattern(r"(.*\S) ([A-Z]{1,6}|[+-][0-9]{2}(?::?[0-9]{2})?)", re.IGNORECASE | re.ASCII)


class ReadTime(NamedTuple):
    """An instant, and a note if something had to be assumed. The caller checks whether it is past."""

    instant: Instant
    note: str | None = None
    whole_day: bool = False
    """True if no time was given, so the instant is the beginning of the day that is meant."""
    first: Instant | None = None
    """The beginning of the day in a range, which may be today: "until christmas" on that day."""
    certain: bool = False
    """True if the note only says what was understood, and nothing else could be meant."""

    @property
    def doubt(self) -> str | None:
        """The note, if something else could be meant."""
        return None if self.certain else self.note

    @property
    def begin(self) -> Instant:
        """The instant as the beginning of a range."""
        return self.instant if self.first is None else self.first

    def last(self, zone: str) -> Instant:
        """Return the instant as the end of a range: the end of the day for a day without a time."""
        if not self.whole_day:
            return self.instant
        clock, t = wall_clock(zone), self.begin // SECOND
        day = (t + clock.stretch(t).offset) // DAY_SECONDS
        return Instant(clock.first_reach((day + 1) * DAY_SECONDS) * SECOND - 1)


def read_words(text: str, zone: str, now: Instant) -> ReadTime | None:
    time = _phrase(plain_words(text), zone, now)
    match = None if time else _ABBREVIATION.fullmatch(text)
    if match is None:
        return time
    return _with_abbreviation(plain_words(match[1]), match[2].upper(), zone, now)


def _with_abbreviation(text: str, abbreviation: str, zone: str, now: Instant) -> ReadTime | None:
    """Parse the format that `format_local` prints: the abbreviation must be the zone's own at that time, or UTC."""
    if abbreviation in ("UTC", "GMT", "Z") and (time := _phrase(text, "UTC", now)):
        return time
    time = _phrase(text, zone, now)
    if time is None:
        return None
    for instant in (time.instant, _second_showing(time.instant, zone)):
        if datetime_of(instant).astimezone(known_zone(zone)).tzname() == abbreviation:
            return ReadTime(instant)
    return None


def _second_showing(instant: Instant, zone: str) -> Instant:
    """Return when the same wall-clock time comes again in a repeated hour; otherwise the same instant."""
    clock, t = wall_clock(zone), instant // SECOND
    _, hi, offset, _ = clock.stretch(t)
    back = offset - clock.stretch(hi).offset
    return Instant(instant + back * SECOND) if hi <= t + back < hi + back else instant


def _phrase(text: str, zone: str, now: Instant) -> ReadTime | None:
    today = datetime_of(now).astimezone(known_zone(zone)).date()
    if only_time := read_clock(text):
        return _next_showing(DateWords(today, "no date given", retry_days=1), only_time, zone, now)
    for day, at in _splits(text):
        of_day = read_clock(at)
        words = of_day and (read_date(day, today) or read_days_ahead(day, today))
        if words and of_day:
            if at.endswith("midnight"):  # some mean the end of that day
                words = words._replace(doubtful=True, floating="the midnight at which that day begins")
            return _next_showing(words, of_day, zone, now)
    if words := read_date(text.removeprefix("on "), today):
        if words.usual is not None:
            second = _usual_second(words, words.usual, zone, now)
            words = words._replace(doubtful=words.doubtful or second != words.usual)
            return _next_showing(words, ClockWords(second), zone, now)
        midnight = _next_showing(words, ClockWords(0), zone, now)
        first = place(words.day, ClockWords(0), zone) if words.yearly else None
        return midnight and from_midnight(midnight, zone)._replace(first=first and first.instant)
    return None


def _usual_second(words: DateWords, usual: int, zone: str, now: Instant) -> int:
    """Return the time of a day that gives none: "tonight" at 21:09 is 22:00."""
    local = datetime_of(now).astimezone(known_zone(zone))
    full_hour = (local.hour + 1) * 3600
    return full_hour if usual < full_hour < words.over else usual


def _splits(text: str) -> list[tuple[str, str]]:
    """Return every way to split the text into a day and a time, in either order."""
    words = text.split(" ")
    cuts = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(1, len(words))]
    pairs = [*cuts, *((later, earlier) for earlier, later in cuts)]
    return [(_without(("on", "at"), day).rstrip(","), _without(("on",), time)) for day, time in pairs]


def _without(fillers: Sequence[str], words: str) -> str:
    for filler in fillers:
        words = words.removeprefix(f"{filler} ").removesuffix(f" {filler}")
    return words


def _next_showing(words: DateWords, of_day: ClockWords, zone: str, now: Instant) -> ReadTime | None:
    """Return an instant; a weekday, a bare time or a date without a year means the next one that is not past."""
    if words.usual == DAY_PARTS["night"] and (early := _after_midnight(of_day)) is not None:
        words = words._replace(day=shift_day(words.day, 1), doubtful=True)
        of_day = of_day._replace(second=early, bare=False)
    elif not of_day.meridiem and (words.usual or 0) > NOON:  # "tonight at 8"
        of_day = of_day._replace(second=of_day.second + NOON, bare=False)
    earliest = placed = place(words.day, of_day, zone)
    if placed and placed.instant <= now and words.retry_days:
        placed = place(shift_day(words.day, words.retry_days), of_day, zone)
    elif placed and placed.instant <= now and words.yearly and words.day.year < 9999:
        later = coming_date(shift_day(words.day, 1), words.day.month, words.day.day)
        placed = later and place(later.day, of_day, zone)
    reason = words.floating or ("neither am nor pm given" if of_day.bare else None)
    if placed is None or reason is None:
        return placed
    is_sure_day = placed == earliest or (words.retry_days == 1 and of_day.meridiem)
    is_certain = is_sure_day and placed.note is None and not words.doubtful and (not of_day.bare or of_day.meridiem)
    note = f"{reason}: read as {format_local(placed.instant, zone)}"
    return _with_note(placed, note, first=True)._replace(certain=is_certain)


def _after_midnight(of_day: ClockWords) -> int | None:
    """Return a time of a night that is on the next day: "tonight at 1", "friday night at 12" or "at midnight"."""
    second = of_day.second - NOON if NOON <= of_day.second < NOON + 3600 else of_day.second
    return second if second < (5 if of_day.meridiem else 4) * 3600 else None


def place(day: date, of_day: ClockWords, zone: str) -> ReadTime | None:
    """Return a wall-clock time as an instant, with a note if clocks change at that time."""
    local = (day - _EPOCH_DAY).days * DAY_SECONDS + of_day.second
    if not 0 <= local <= LATEST // SECOND:
        return None
    t, kind = wall_clock(zone).resolve(local)
    instant = Instant(t * SECOND + of_day.microsecond)
    if kind == "gap":
        moved = format_local(instant, zone)
        return ReadTime(instant, f"clocks go forward over that time in {zone}: moved to {moved}")
    if kind == "fold":
        return ReadTime(instant, f"that time comes twice in {zone}: the first one is meant")
    return ReadTime(instant)


def from_midnight(read: ReadTime, zone: str) -> ReadTime:
    return _with_note(read, midnight_note(zone))._replace(whole_day=True, certain=False)


def midnight_note(zone: str) -> str:
    return f"no time given: read as 00:00 in {zone}"


def _with_note(read: ReadTime, note: str | None, *, first: bool = False) -> ReadTime:
    notes = [note, read.note] if first else [read.note, note]
    return read._replace(note="; ".join(text for text in notes if text) or None)


LONGEST_DURATION: Final = 36_525 * DAY_SECONDS * SECOND
"""A hundred years, in microseconds."""

_LONGEST_TEXT = 100
_DURATION = pattern(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def unreadable(text: object, reason: str = "") -> UnreadableTime:
    quote = text if isinstance(text, str) else repr(text)
    quote = quote if len(quote) <= _LONGEST_TEXT else quote[:_LONGEST_TEXT] + "..."
    return UnreadableTime(f'could not parse "{quote}" as a date/time. {reason}'.rstrip(), field="at")


_EXACT_LENGTHS: Final = frozenset(
    len(f"2026-02-05T15:00:00{rest}") for rest in ("Z", "+00:00", ".000000Z", ".000000+00:00")
)


def read_exact(text: object) -> Instant | None:
    """Return the instant of a time with an offset, as programs write it, or None for any other text: such a time needs
    neither a zone nor the current time."""
    if not isinstance(text, str) or len(text) not in _EXACT_LENGTHS or text[10] != "T":
        return None
    try:
        instant = instant_of(datetime.fromisoformat(text))
    except ValueError:  # also for a time without an offset
        return None
    return instant if 0 <= instant <= LATEST else None


def read_time(text: object, *, zone: str, now: Instant) -> ReadTime:
    """Parse what a person or an agent wrote as a time in `zone`. Words may also name a past time, so that a caller who
    needs a future time can report what is wrong."""
    zone = known_zone(zone).key
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        raise unreadable(text)
    tidy = " ".join(text.split())
    time = _iso(tidy, zone) or _relative(plain_words(tidy), zone, now)
    try:
        time = time or read_words(tidy, zone, now)
    except UnreadableTime as ambiguous:
        raise unreadable(text, ambiguous.message) from None
    time = time or _past_words(tidy, zone, now)
    if time is None or not 0 <= time.instant <= LATEST:
        raise unreadable(text)
    return time


def read_duration(text: object) -> int:
    """Return the microseconds of `30m`, `2h30m`, `1d10h30m50s`: units in this order, each at most once."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if not text or match is None:
        raise UnreadableTime(_bad_duration(text), field="duration")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = (days * DAY_SECONDS + hours * 3600 + minutes * 60 + seconds) * SECOND
    if total > LONGEST_DURATION:
        raise UnreadableTime(_bad_duration(text) + " It is longer than a hundred years.", field="duration")
    return total


def _bad_duration(text: object) -> str:
    quote = text[:_LONGEST_TEXT] if isinstance(text, str) else repr(text)[:_LONGEST_TEXT]
    hint = "write it like 30m, 2h30m or 1d10h30m50s (units in order d h m s)."
    return f'could not parse "{quote}" as a duration; {hint}'


def _relative(text: str, zone: str, now: Instant) -> ReadTime | None:
    if text == "now":
        return ReadTime(now)
    if (months := read_months(text)) is not None:
        return _months_later(months, zone, now)
    ahead = read_relative(text)
    if ahead is None:
        return None
    instant = Instant(now + ahead)
    if ahead < DAY_SECONDS * SECOND or instant > LATEST:
        return ReadTime(instant)
    clock = wall_clock(zone)
    changed = clock.stretch(now // SECOND).offset != clock.stretch(instant // SECOND).offset
    return ReadTime(instant, "a day counts as 24 hours; clocks change in between" if changed else None)


def _months_later(months: int, zone: str, now: Instant) -> ReadTime | None:
    """Return the same day of a later month at the same wall-clock time."""
    local = datetime_of(now).astimezone(known_zone(zone))
    day = month_later(local.date(), months)
    second = local.hour * 3600 + local.minute * 60 + local.second
    time = day and place(day, ClockWords(second, local.microsecond), zone)
    if not time or day is None or day.day == local.day:
        return time or None
    return _with_note(
        time, f"that month has no day {local.day}: read as {format_local(time.instant, zone)}", first=True
    )


def _iso(text: str, zone: str) -> ReadTime | None:
    parts = read_iso(text)
    if parts is None:
        return None
    moment, date_only = parts
    if moment.tzinfo is not None:
        return ReadTime(instant_of(moment))
    second = moment.hour * 3600 + moment.minute * 60 + moment.second
    placed = place(moment.date(), ClockWords(second, moment.microsecond), zone)
    return from_midnight(placed, zone) if placed and date_only else placed


def read_past_time(text: object, *, zone: str, now: Instant) -> ReadTime:
    """Parse a time as `read_time` does, except that a weekday means the most recent one."""
    if not isinstance(text, str):
        raise unreadable(text)
    words = " ".join(text.split()).lower().removeprefix("last ").removeprefix("on ")
    if words[:3] in DAY_NAMES:
        return read_time(words, zone=zone, now=Instant(now - 7 * DAY))
    return _past_words(words, zone, now) or read_time(text, zone=zone, now=now)


def _past_words(words: str, zone: str, now: Instant) -> ReadTime | None:
    """Parse `yesterday`, `yesterday 9am` or `2 hours ago`."""
    words = words.lower()
    if words.endswith(" ago") and (length := read_relative(f"in {words.removesuffix(' ago')}")) is not None:
        return ReadTime(Instant(now - length))
    if words == "yesterday" or words.startswith("yesterday "):
        time = read_time(words.replace("yesterday", "tomorrow", 1), zone=zone, now=_noon(zone, now, days=-2))
        return time._replace(note=time.note and time.note.replace("tomorrow", "yesterday", 1))
    return None


def read_instant(
    text: object, zone: str, now: Instant, *, first: bool = False, last: bool = False, past: bool = False
) -> Instant:
    """Return the instant that a text means. With `first` or `last`, it is the beginning or the end of a range, which
    includes all of a day without a time, today as well. With `past`, the question is about what happened: see
    `read_past_time`."""
    read = (read_past_time if past else read_time)(text, zone=zone, now=now)
    return read.last(zone) if last else read.begin if first else read.instant


def _noon(zone: str, now: Instant, days: int) -> Instant:
    local = known_zone(zone)
    day = datetime_of(now).astimezone(local).date() + timedelta(days=days)
    return instant_of(datetime.combine(day, time(12), local))
