"""Cron expressions, stepped with bit sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from duetime.core.triggers.cron_fields import CronFields, cron_fields
from duetime.core.triggers.days import lowest
from duetime.core.triggers.text import common_dict
from duetime.core.triggers.walls import WallTrigger
from duetime.core.wallclock import DAY_SECONDS

Dst = Literal["debian", "literal"]


@dataclass(frozen=True, kw_only=True)
class CronTrigger(WallTrigger):
    """`debian`: a fixed time in the gap runs right after it and a repeated hour counts once, while an
    expression whose minute or hour begins with `*` follows the wall clock. `literal`: every expression
    follows it, so a time in the gap does not run that day and a repeated time runs twice.
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
        fields = self.fields
        found = fields.days.next_day(day)
        if found == day:
            minute, second = divmod(second, 60)
            minutes = fields.minutes >> minute
            if minutes & 1:
                seconds = fields.seconds >> second
                if seconds:
                    return local + (seconds & -seconds).bit_length() - 1
                minutes ^= 1
            if minutes:
                minute += (minutes & -minutes).bit_length() - 1
                return day * DAY_SECONDS + minute * 60 + lowest(fields.seconds)
            found = fields.days.next_day(day + 1)
        if found is None:
            return None
        return found * DAY_SECONDS + lowest(fields.minutes) * 60 + lowest(fields.seconds)

    def to_dict(self) -> dict[str, object]:
        chosen = {} if self.dst == "debian" else {"dst": self.dst}
        return common_dict(self) | {"expression": self.expression} | chosen
