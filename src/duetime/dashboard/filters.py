"""Filters for templates: text without hidden characters, instants in the viewer's zone, names and colours of kinds.

Everything that a template prints goes through `visible`, so that no character can hide or reverse text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, urlsplit

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from duetime.engine.clock import SECOND, Instant, datetime_of, instant_of
from duetime.engine.errors import DuetimeError
from duetime.service.kind_spec import known_specs
from duetime.service.state_details import status_words
from duetime.service.text import UNSAFE, ahead, compact, gist, percent, plural, relative, span
from duetime.service.vocabulary import known_zone

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LAYOUT = "\n\t"
_LONGEST_URL = 2000


def visible(value: Any) -> Any:
    """Replace characters that would hide or reverse text with their code points. Our own markup stays unchanged."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else UNSAFE.sub(_named, value)


def _named(match: re.Match[str]) -> str:
    return match[0] if match[0] in _LAYOUT else f"⟨U+{ord(match[0]):04X}⟩"


def as_typed(value: object) -> Markup:
    """Return the value of a form field, escaped but otherwise unchanged, because the form sends it back."""
    return escape("" if value is None else str(value))


def pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def linked(value: object) -> Markup:
    """Render a link if the whole text is a web address, otherwise only the text."""
    text = str(value)
    if not is_web_address(text):
        return escape(visible(text))
    return Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>').format(text, visible(text))


def is_web_address(text: str) -> bool:
    if len(text) > _LONGEST_URL or UNSAFE.search(text) or any(letter.isspace() or letter in '"<>\\' for letter in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


@lru_cache(maxsize=4096)
def instant_from(iso: str) -> Instant:
    return instant_of(datetime.fromisoformat(iso))


def day_name(moment: datetime, today: datetime) -> str:
    days = (moment.date() - today.date()).days
    if days in (-1, 0, 1):
        return ("Yesterday", "Today", "Tomorrow")[days + 1]
    year = "" if moment.year == today.year else f" {moment.year}"
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]}{year}"


def clock_time(moment: datetime) -> str:
    seconds = f":{moment.second:02}" if moment.second else ""
    return f"{moment.hour:02}:{moment.minute:02}{seconds}"


def local_time(instant: Instant, zone: str, now: Instant, *, inside: bool = False) -> str:
    """Format as `Today 15:30` or `Mon 16 Nov 09:00`: short, with an unambiguous day; `inside` a sentence as
    `today 15:30`."""
    moment = datetime_of(instant).astimezone(known_zone(zone))
    day = day_name(moment, _today(now, zone))
    return f"{day.lower() if inside and day.isalpha() else day} {clock_time(moment)}"


@lru_cache(maxsize=64)
def _today(now: Instant, zone: str) -> datetime:
    return datetime_of(now).astimezone(known_zone(zone))


@pass_context
def when(context: Context, iso: str | None, *, inside: bool = False) -> Markup:
    """Render an instant in the viewer's zone, on its own or `inside` a sentence."""
    if iso is None:
        return Markup('<span class="faint">never</span>')
    return _time(iso, local_time(instant_from(iso), context["zone"], context["now"], inside=inside), context)


@pass_context
def away(context: Context, iso: str | None) -> Markup:
    """Render the time between an instant and now; a script updates it while the page is open."""
    if iso is None:
        return Markup('<span class="faint">never</span>')
    return _time(iso, relative(instant_from(iso), context["now"]), context, "ticks")


@pass_context
def countdown(context: Context, iso: str) -> Markup:
    return _time(iso, ahead(instant_from(iso), context["now"]), context, "ticks countdown")


def _time(iso: str, text: str, context: Context, classes: str = "") -> Markup:
    """Render an instant; the classes are constants."""
    attributes = f'{_time_attributes(iso, context["zone"])} class="{classes}"'
    return Markup(f"<time {attributes}>{escape(text)}</time>")  # noqa: S704 - escaped, and faster than Markup.format


@lru_cache(maxsize=4096)
def _time_attributes(iso: str, zone: str) -> str:
    full = datetime_of(instant_from(iso)).astimezone(known_zone(zone))
    title = f"{full:%Y-%m-%d %H:%M:%S} {full.tzname()}"
    return f'datetime="{escape(iso)}" title="{escape(title)}"'


@pass_context
def there(context: Context, iso: str | None, zone: str | None) -> Markup:
    """Render the instant in the schedule's own zone, if its time differs from the viewer's."""
    if iso is None or zone is None or zone == context["zone"]:
        return Markup("")
    try:
        theirs = datetime_of(instant_from(iso)).astimezone(known_zone(zone))
    except DuetimeError:
        return Markup("")
    own = datetime_of(instant_from(iso)).astimezone(known_zone(context["zone"]))
    if theirs.utcoffset() == own.utcoffset():
        return Markup("")
    day = "" if theirs.date() == own.date() else f"{_DAYS[theirs.weekday()]} "
    return Markup('<span class="there">{}{} {}</span>').format(day, clock_time(theirs), zone)


@pass_context
def own_zone(context: Context, text: str) -> str:
    """Leave out the zone of a description if it is the viewer's own."""
    return text.replace(f" ({context['zone']})", "")


def took(started: str | None, finished: str | None) -> str:
    if started is None or finished is None:
        return "\u2013"
    return span(max(1, instant_from(finished) - instant_from(started)))  # views round to milliseconds


@pass_context
def clock_or_nothing(context: Context, iso: str | None) -> Markup:
    """Render the time of day of an instant, to the second; nothing if there is none."""
    if not iso:
        return Markup("")
    there_ = datetime_of(instant_from(iso)).astimezone(known_zone(context["zone"]))
    return _time(iso, f"{there_:%H:%M:%S}", context)


def amount(value: object) -> str:
    """Format a number with separators, and anything else as it is."""
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else compact(value)


def late(behind: int | None) -> str:
    """Return how late a run began; nothing for less than a second, which is not worth a sentence."""
    return f"{span(behind)} late" if behind is not None and behind >= SECOND else ""


def lateness(behind: int | None) -> str:
    """Return how late a run began, however little; nothing for a run that was started manually."""
    return "" if behind is None else span(max(1, behind))


FILTERS = {
    "amount": amount,
    "clock_or_nothing": clock_or_nothing,
    "as_typed": as_typed,
    "away": away,
    "before_colon": lambda text: str(text).partition(":")[0],
    "compact": compact,
    "countdown": countdown,
    "gist": lambda run: gist(run["error"], run["report"], run["result"]),
    "late": late,
    "lateness": lateness,
    "linked": linked,
    "own_zone": own_zone,
    "plural": plural,
    "percent": percent,
    "path": lambda text: quote(str(text), safe=""),
    "pretty": pretty,
    "span": span,
    "status_words": lambda it: status_words(it["status"], it["last_status"], it["state_detail"]),
    "there": there,
    "twice": lambda text: (text, text),
    "when": when,
}
"""Filters by their names in templates."""


# -- kinds; a colour is one of eight CSS classes, since pages have no inline styles ----------------------------------

COLOURS: Final = 8


def kind_class(kind: str) -> str:
    """Return the CSS class of a kind: its own colour, or otherwise one that no other kind has chosen, if there is
    one."""
    specs = known_specs()
    if kind not in specs:
        return ""
    if specs[kind].colour:
        return f"colour-{specs[kind].colour}"
    chosen = {spec.colour for spec in specs.values()}
    free = [number for number in range(1, COLOURS + 1) if number not in chosen] or [COLOURS]
    without = [name for name, spec in specs.items() if not spec.colour]
    return f"colour-{free[without.index(kind) % len(free)]}"


def kind_icon(kind: str) -> str:
    """Return the name of a drawing in `icons.html`."""
    spec = known_specs().get(kind)
    return "page" if spec is None else spec.icon


def in_order(kinds: Iterable[str]) -> list[str]:
    """Return the kinds in the order of their specs, followed by those that this process does not know."""
    present = dict.fromkeys(kinds)
    return [
        *(name for name in known_specs() if name in present),
        *(name for name in present if name not in known_specs()),
    ]


def plural_of(kind: str) -> str:
    spec = known_specs().get(kind)
    return f"{kind}s" if spec is None else spec.plural


def count_of(number: int, kind: str) -> str:
    return f"{number:,} {kind if number == 1 else plural_of(kind)}"
