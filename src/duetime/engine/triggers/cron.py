"""Cron triggers, evaluated with bit sets. The library cronsim parses and validates the text."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from duetime.engine.errors import InvalidInput, InvalidTrigger
from duetime.engine.times.wall_clock import DAY_SECONDS
from duetime.engine.triggers.base import EVERY_SEVENTH, DaySet, TimeSet, WallTrigger, lowest
from duetime.engine.value_class import dataclass

if TYPE_CHECKING:
    from cronsim import CronSim

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MAX_EXPRESSION_LENGTH = 1000
_ANY_DATE = datetime(2000, 1, 1, tzinfo=UTC)
_LAST, _LAST_WEEKDAY = -1000, -1001  # cronsim's own markers for L and LW
INVALID = "Invalid cron expression: "
"""Prefix of the errors about an expression."""
WITHOUT_SECONDS = (
    "give 5 fields, without seconds: minute hour day-of-month month day-of-week; for seconds, give an interval"
)
_FIELDS = (
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31, or L for the last"),
    ("month", "1-12, or JAN-DEC"),
    ("day of the week", "0-7 or SUN-SAT, where 0 and 7 are Sunday"),
)


class CronDays(DaySet):
    """Days by month, day of month and day of week (Sunday is 0)."""

    horizon = 41 * 12  # 29 February falls on a given weekday at least every 40 years, even around 2100

    def __init__(self, sim: CronSim, months: frozenset[int]) -> None:
        super().__init__()
        self._months = months
        self._both = sim.day_and
        self._dates = sum(1 << day for day in sim.days if day > 0)
        self._last = _LAST in sim.days
        self._last_weekday = _LAST_WEEKDAY in sim.days
        self._weekdays = {item % 7 for item in sim.weekdays if isinstance(item, int)}
        self._nth = {(item[0] % 7, item[1]) for item in sim.weekdays if isinstance(item, tuple)}

    @property
    def least_date(self) -> int:
        """The smallest day of the month; 0 if the last day is included too, or only some months match."""
        open_ended = self._last or self._last_weekday or len(self._months) < 12
        return 0 if open_ended or not self._dates else lowest(self._dates)

    def month_bits(self, year: int, month: int) -> int:
        if month not in self._months:
            return 0
        first, length = monthrange(year, month)
        dates = self._dates & ((2 << length) - 2)
        if self._last:
            dates |= 1 << length
        if self._last_weekday:
            dates |= 1 << length - max(0, (first + length - 1) % 7 - 4)
        weekdays = self._weekday_bits((first + 1) % 7, length)
        return dates & weekdays if self._both else dates | weekdays

    def _weekday_bits(self, first: int, length: int) -> int:
        bits = 0
        for weekday in self._weekdays:
            bits |= EVERY_SEVENTH << 1 + (weekday - first) % 7
        for weekday, nth in self._nth:
            day = 1 + (weekday - first) % 7
            bits |= 1 << (day + (length - day) // 7 * 7 if nth == _LAST else day + (nth - 1) * 7)
        return bits & ((2 << length) - 2)


@dataclass(frozen=True, eq=False)
class CronFields:
    """A parsed expression."""

    text: str
    times: TimeSet
    days: CronDays
    follows_clock: bool
    dates_and_weekdays: bool


def malformed(expression: object) -> InvalidTrigger:
    quote = expression if isinstance(expression, str) else repr(expression)
    return InvalidTrigger(f"{INVALID}{quote}", field="expression")


@lru_cache(maxsize=8192)
def cron_fields(expression: str) -> CronFields:
    text = ALIASES.get(expression.strip().lower(), expression)
    parts = text.upper().split()
    if len(expression) > _MAX_EXPRESSION_LENGTH or len(parts) not in (5, 6):
        raise malformed(expression)
    sim, months = _read(expression, parts)
    minutes_of_hour = sum(1 << minute for minute in sim.minutes)
    minutes_of_day = sum(minutes_of_hour << 60 * number for number in sim.hours)
    minute, hour, date, _, weekday = parts[-5:]
    return CronFields(
        text=" ".join(parts),
        times=TimeSet(minutes_of_day, sum(1 << second for second in sim.seconds)),
        days=CronDays(sim, months),
        follows_clock=minute.startswith("*") or hour.startswith("*"),
        dates_and_weekdays=not date.startswith("*") and not weekday.startswith("*"),
    )


def _read(expression: str, parts: list[str]) -> tuple[CronSim, frozenset[int]]:
    from cronsim import CronSim, CronSimError

    # cronsim rejects 30 February as malformed although it merely never fires, so the month is parsed separately.
    without_month = [*parts[:-2], "*", parts[-1]]
    try:
        months = CronSim(f"0 0 * {parts[-2]} *", _ANY_DATE).months
        return CronSim(" ".join(without_month), _ANY_DATE), frozenset(months)
    except (CronSimError, AssertionError, ValueError, TypeError):
        raise malformed(expression) from None


Dst = Literal["debian", "literal"]


@dataclass(frozen=True, kw_only=True)
class CronTrigger(WallTrigger):
    """A cron expression.

    `debian`: a fixed time in a gap runs right after the gap and a repeated hour counts once, while an expression whose
    minute or hour begins with `*` follows the wall clock. `literal`: every expression follows the wall clock, so a time
    in a gap does not run that day and a repeated time runs twice.
    """

    type: ClassVar[str] = "cron"
    expression: str
    dst: Dst = "debian"
    fields: CronFields = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._open_clock()
        fields = cron_fields(self.expression)
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "follows", self.dst == "literal" or fields.follows_clock)

    def next_local(self, local: int) -> int | None:
        day, second = divmod(local, DAY_SECONDS)
        times, days = self.fields.times, self.fields.days
        following = days.next_day(day)
        if following == day:
            time = times.next_time(second)
            if time is not None:
                return day * DAY_SECONDS + time
            following = days.next_day(day + 1)
        return None if following is None else following * DAY_SECONDS + times.first

    def to_dict(self) -> dict[str, object]:
        chosen = {} if self.dst == "debian" else {"dst": self.dst}
        return super().to_dict() | {"expression": self.expression} | chosen


def cron_fault(expression: str) -> str:
    """Return which field is invalid, found by parsing each field alone."""
    parts = expression.split()
    if expression.strip().startswith("@"):
        return "there are @yearly, @monthly, @weekly, @daily and @hourly"
    if len(parts) not in (5, 6):
        has = f"{len(parts)} field" if len(parts) == 1 else f"{len(parts)} fields"
        return f"it has {has}, and cron has 5: minute hour day month weekday, or 6 with seconds in front"
    for number, (name, range_) in enumerate(_FIELDS[6 - len(parts) :]):
        alone = ["*"] * len(parts)
        alone[number] = parts[number]
        try:
            cron_fields(" ".join(alone))
        except InvalidInput:
            return f"the {name} cannot be {parts[number]!r}: use {range_}, and cron's * - , /"
    return WITHOUT_SECONDS if len(parts) == 6 else "its fields do not go together"
