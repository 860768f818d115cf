"""Time zones by name, and formatting of instants in them."""

from __future__ import annotations

from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from duetime.engine.clock import Instant, datetime_of
from duetime.engine.errors import UnknownZone
from duetime.engine.times.grammar import MONTHS
from duetime.engine.value_class import pattern

_NAME = pattern(r"[A-Za-z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,3}")
# "right/…" counts leap seconds, and the others depend on the configuration of this machine: neither is reliable.
_UNUSABLE = pattern(r"(posix|right)/.*|localtime|posixrules|Factory|leapseconds")
_MAX_NAME_LENGTH = 64
_NO_ZONE_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def known_zone(name: object) -> ZoneInfo:
    """Return the zone of an IANA name, or raise UnknownZone with suggestions."""
    if not isinstance(name, str):
        raise UnknownZone(f"timezone must be text such as Europe/Berlin, not {type(name).__name__}.", field="timezone")
    return _zone(name)


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    if len(name) <= _MAX_NAME_LENGTH and _NAME.fullmatch(name) and not _UNUSABLE.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, *_NO_ZONE_FILE):
            pass  # any other OSError is about this machine and not about the name
    raise UnknownZone(_describe_unknown(name), field="timezone")


def _describe_unknown(name: str) -> str:
    quote = name if len(name) <= _MAX_NAME_LENGTH else name[:_MAX_NAME_LENGTH] + "..."
    nearest = suggestions(name[:_MAX_NAME_LENGTH])
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "use an IANA name such as Europe/Berlin."
    return f"Unknown time zone {quote!r}: {hint}"


_ABBREVIATED = {
    **dict.fromkeys(("cest", "mez", "mesz"), "Europe/Berlin"),
    "bst": "Europe/London",
    "eest": "Europe/Athens",
    "msk": "Europe/Moscow",
    **dict.fromkeys(("et", "edt", "est"), "America/New_York"),
    **dict.fromkeys(("ct", "cst", "cdt"), "America/Chicago"),
    **dict.fromkeys(("mt", "mdt", "mst"), "America/Denver"),
    **dict.fromkeys(("pt", "pst", "pdt"), "America/Los_Angeles"),
    "ist": "Asia/Kolkata",
    "jst": "Asia/Tokyo",
    "sgt": "Asia/Singapore",
    "hkt": "Asia/Hong_Kong",
    **dict.fromkeys(("aest", "aedt"), "Australia/Sydney"),
}
"""Zones by the abbreviations that people write for them."""


def zone_of_abbreviation(name: str) -> str | None:
    """Return the zone that people mean by an abbreviation such as CEST, or EST, which has no summer time as an IANA
    name."""
    return _ABBREVIATED.get(name.strip().lower())


def suggestions(name: str) -> list[str]:
    """Return at most three IANA names that look like this one; a bare city matches as well as the full name."""
    if zone := zone_of_abbreviation(name):
        return [zone]
    names = _names()
    key = name.strip().lower().replace(" ", "_")
    import difflib  # only an error needs it

    close = difflib.get_close_matches(key, names, n=6, cutoff=0.75)
    return list(dict.fromkeys(names[match] for match in close))[:3]


def preload() -> None:
    """Read the list of names and every zone now, because later there may be no file descriptor left to read them."""
    for name in sorted(set(_names().values())):
        try:
            known_zone(name)
        except (UnknownZone, OSError):
            continue  # it is read again when it is needed


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    full = {name.lower(): name for name in sorted(available_timezones()) if not _UNUSABLE.fullmatch(name)}
    cities = {name.rpartition("/")[2].lower(): name for name in sorted(full.values()) if "/" in name}
    return cities | full


def format_local(instant: Instant, zone: str) -> str:
    """Format as `Feb 10, 2026 3:00 PM PST`: for people, always with the year and the zone's abbreviation."""
    local = datetime_of(instant).astimezone(known_zone(zone))
    hour = local.hour % 12 or 12
    half = "AM" if local.hour < 12 else "PM"
    month = MONTHS[local.month - 1][:3]
    return f"{month} {local.day}, {local.year} {hour}:{local.minute:02d} {half} {local.tzname()}"


def clock_local(instant: Instant, zone: str) -> str:
    """Format as `2026-02-10 15:00 PST`, with seconds if there are any: in descriptions and on terminals."""
    local = datetime_of(instant).astimezone(known_zone(zone))
    return f"{local:%Y-%m-%d %H:%M:%S}".removesuffix(":00") + f" {local.tzname()}"


def iso_local(instant: Instant, zone: str, timespec: str = "auto") -> str:
    """Format as ISO 8601 with offset; by default with microseconds only if there are any."""
    return datetime_of(instant).astimezone(known_zone(zone)).isoformat(timespec=timespec)


def past_problem(instant: Instant, zone: str, now: Instant) -> str:
    """Return the problem of a time that is in the past, to the second, because nobody plans microseconds."""
    return f"{iso_local(instant, zone, 'seconds')} is in the past; it is now {iso_local(now, zone, 'seconds')}"
