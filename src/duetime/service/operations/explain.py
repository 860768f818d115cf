"""What an expression means: when it fires, how often, and what clock changes do to it. No store is needed for that."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from duetime.engine.clock import DAY, NEVER, SECOND, Instant
from duetime.engine.errors import InvalidInput, UnreadableTime
from duetime.engine.model import FOLLOWED
from duetime.engine.times import read_time
from duetime.engine.triggers import Trigger, build_trigger, describe, warnings_for
from duetime.engine.triggers.base import WallTrigger
from duetime.engine.triggers.step_budget import CREATION_STEPS, step_budget
from duetime.service.when import limits_of, read_phrase, with_limits

EXAMPLES: Final = (
    '"0 9 * * 1-5", "every 2h", "every weekday at 8:30", "RRULE:FREQ=WEEKLY", or a time such as "tomorrow 9am"'
)
MAX_COUNTED: Final = 10_000
"""Maximum occurrences that are counted."""


class Explanation(NamedTuple):
    """A rule that was read from an expression."""

    trigger: Trigger
    warnings: list[str]
    """How an ambiguous expression was understood, and what may be unexpected."""
    zone: str
    now: Instant

    @property
    def english(self) -> str:
        return describe(self.trigger)

    @property
    def recurs(self) -> bool:
        return self.trigger.type != "once" and not self.waits

    @property
    def waits(self) -> bool:
        """Whether it waits for an event or for another schedule."""
        return self.trigger.type == "event"

    def next(self, count: int) -> list[Instant]:
        """Return the next times."""
        instants: list[Instant] = []
        following = self.trigger.next_after(Instant(self.now - 1))
        while following is not None and following < NEVER and len(instants) < count:
            instants.append(following)
            following = self.trigger.next_after(following)
        return instants

    def count(self, days: int) -> int:
        """Return how often it fires in so many days, at most one more than MAX_COUNTED."""
        return self.trigger.count(self.now, Instant(self.now + days * DAY), MAX_COUNTED)

    @property
    def clock_changes(self) -> str:
        """What happens to it when clocks change."""
        trigger, second = self.trigger, self.now // SECOND
        if self.waits:
            return "they do not matter, because it has no times of its own"
        if not isinstance(trigger, WallTrigger):
            return "it counts elapsed time and ignores clock changes" if self.recurs else "it is one instant"
        if next(trigger.clock.changes(second, second + 366 * DAY // SECOND), None) is None:
            return f"they do not change in {trigger.timezone} within a year"
        if trigger.follows:
            return "it follows the wall clock: a time that is skipped does not run, one that comes twice runs twice"
        return "a time that is skipped runs right after the gap, one that comes twice runs once"


def explain(expression: str, zone: str, now: Instant, dst: str, **limits: str | None) -> Explanation:
    """Return what an expression means now, in a zone, between `start` and `end`. `dst` says how cron expressions treat
    clock changes."""
    kind, config = _read(expression)
    config = with_limits(config, limits_of(limits))
    if kind == "cron":
        config["dst"] = dst
    note = None
    if kind == "once":
        try:
            note = read_time(config["run_at"], zone=zone, now=now).doubt
        except UnreadableTime:
            raise UnreadableTime(f'EXPR: "{config["run_at"][:60]}" cannot be read; give {EXAMPLES}') from None
    if kind == "after":
        config[FOLLOWED] = (0, "", config["schedule"])  # which needs a store
    with step_budget(CREATION_STEPS):  # the limit of a create, so that both refuse the same expressions
        trigger = build_trigger(kind, config, zone=zone, now=now)
        warnings = [*([note] if note else []), *warnings_for(trigger, now)]
        warnings += ["It has no times of its own: it runs when that happens."] if trigger.type == "event" else []
        return Explanation(trigger, warnings, zone, now)


def _read(text: str) -> tuple[str, dict[str, Any]]:
    """Return the type of trigger that the text means, and its configuration."""
    normalized = " ".join(text.split())
    if not normalized:
        raise InvalidInput(f"EXPR: is empty; give {EXAMPLES}")
    is_cron = normalized[0] in "@*" or "*" in normalized or re.match(r"\d+( \S+){4}", normalized) is not None
    if is_cron and not normalized.lower().startswith(("rrule:", "freq=")):
        return "cron", {"expression": normalized}
    try:
        return read_phrase(normalized)
    except InvalidInput as error:
        raise InvalidInput(f"EXPR: {error.message.removeprefix('when: ')}") from None
