"""Incidents: what went wrong with a schedule, from the first time until it goes well again, and when its owner is told.

The transaction that records a failure also writes the incident. `Store.tell_incidents` later creates the messages about
it, so that the failures of many schedules become few messages, and each message exists once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from duetime.engine.clock import DAY, MINUTE, Instant
from duetime.engine.model import Definition, Run, RunId, ScheduleId, Trouble
from duetime.engine.policy.follow_ups import Messenger, shown_tags
from duetime.engine.policy.options import ALERTS, AlertMode, NotifyOn, Policy, policy_for_ending, tags_of
from duetime.engine.policy.rows import IncidentEvent, OwnerMessage, Writes
from duetime.engine.value_class import NamedTuple, pattern

ALERT_KEY: Final = "~incident:"
"""Key prefix of the messages about incidents. A message that cannot be delivered is no incident itself."""
ALERT_PAUSE: Final = 10 * MINUTE
"""After a message about incidents, the owner gets no other for this time; what happens meanwhile is told together."""
GATHER_FOR: Final = MINUTE
"""How long to wait for more of the same before telling of what works again, was missed in an outage, or waits for a
cluster. None of these is urgent, and all happen to many schedules within seconds. What fails is told at once."""
REMIND_AFTER: Final = DAY
MAX_REMINDERS: Final = 7
MAX_TEXT_LENGTH: Final = 500
MAX_CAUSE_LENGTH: Final = 200
MAX_OPEN_CAUSES: Final = 20
"""Maximum number of open failures of one schedule; further causes count as one."""
MAX_INCIDENTS_LISTED: Final = 20
"""Maximum number of incidents that one message lists."""
OTHER_CAUSES: Final = "other causes"

NO_INCIDENT: Final = 0
"""The id of a row that stands for runs, or for a schedule, of which there is no incident."""

_STOPS: Final = (Trouble.PAUSED, Trouble.BROKEN)
_OF_FAILURES = (NotifyOn.FAILURE, NotifyOn.ALWAYS, NotifyOn.CHANGE)

_CHANGING = pattern(
    r"(?<![\w-])(?:(?:[^\W\d]|-)*+\d[\w-]*+|[0-9a-fA-F]{8,}"
    r"|Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"
    r"|Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?|[AP]M)(?![\w-])"
    r"|(?<!\w)'[^']{0,200}'|\"[^\"]{0,200}\""
)
"""Parts of an error that differ from one time to the next: numbers, ids, which contain a digit, times and quoted
values."""


class IncidentRow(NamedTuple):
    """An incident as it is stored, with the name of its schedule."""

    id: int
    owner: str
    schedule: ScheduleId
    trouble: str
    cause: str
    text: str
    run: RunId | None
    first: Instant
    last: Instant
    number: int
    alert: str = ""
    due: Instant | None = None
    """When the owner is to be told next; None if there is nothing to tell."""
    last_told: Instant | None = None
    reminders: int = 0
    recovered: Instant | None = None
    resolved: Instant | None = None
    actor: str | None = None
    """Who resolved it."""
    name: str = ""
    public_id: str = ""
    kind: str = ""
    run_status: str | None = None
    """The status of its latest run; None if it has none, or that was deleted."""
    occurrences: int | None = None
    """The size of the range that its latest run stands for; a negative number means at least that many."""
    run_due: Instant | None = None
    run_last: Instant | None = None
    """The last instant of that range; `run_due` is its first."""
    policy: str = ""
    """That of its schedule."""

    @property
    def tags(self) -> list[str]:
        return tags_of(self.policy)


def cause_of(text: str) -> str:
    """Return what stays the same in an error from one time to the next."""
    return _CHANGING.sub("#", text[:MAX_TEXT_LENGTH])[:MAX_CAUSE_LENGTH]


def note(
    writes: Writes, definition: Definition, policy: Policy, trouble: Trouble, text: str, run: Run | None = None
) -> None:
    """Note that something is wrong with a schedule, unless that schedule is itself a message about such a thing. The
    owner is not told by an alert of what the schedule reports on its own topic."""
    is_alert = definition.subject == ALERTS and definition.key.startswith("~")
    if is_alert or definition.key.startswith(ALERT_KEY):
        return
    is_told = trouble == Trouble.FAILED and policy.deliver_to is not None and policy.notify_on in _OF_FAILURES
    event = IncidentEvent(
        definition.id,
        definition.owner,
        trouble,
        f"{trouble}: {cause_of(text)}",
        text[:MAX_TEXT_LENGTH],
        None if run is None else run.id,
        AlertMode.OFF if is_told else policy.alert,
    )
    writes.further += (event,)


def note_label(writes: Writes, definition: Definition, label: str) -> None:
    """Note that a schedule waits, because no worker has the label that it needs."""
    text = f"No worker that is running has the label {label}; start one with --label {label}."
    note(writes, definition, policy_for_ending(definition.policy), Trouble.UNTAKEN, text)


def to_tell(incidents: Sequence[IncidentRow], now: Instant) -> list[IncidentRow]:
    """Return which of the incidents that are due soon are told now: those that are due and, if one of them was
    gathered, everything that was gathered with it."""
    due = {each.id for each in incidents if each.due is not None and each.due <= now}
    gathered = {each.id for each in incidents if each.recovered is not None or _was_just_missed(each)}
    if due & gathered:
        due |= gathered
    return [each for each in incidents if each.id in due]


def _was_just_missed(incident: IncidentRow) -> bool:
    return incident.trouble in (Trouble.MISSED, Trouble.HELD) and incident.last_told is None


def next_due(incident: IncidentRow, now: Instant) -> Instant | None:
    """Return when the owner is reminded of an incident after being told of it now."""
    reminded = incident.last_told is not None and incident.reminders + 1 >= MAX_REMINDERS
    if incident.recovered is not None or reminded:
        return None
    return Instant(now + REMIND_AFTER)


def trouble_to_tell(incident: IncidentRow, messenger: Messenger | None) -> str:
    """Return what people are told is wrong: a message to a person that failed was not delivered."""
    is_message = messenger is not None and incident.kind == messenger.kind
    return Trouble.UNDELIVERED if is_message and incident.trouble == Trouble.FAILED else incident.trouble


def describe(incidents: Sequence[IncidentRow], now: Instant, messenger: Messenger | None = None) -> OwnerMessage:
    """Return the one message about the incidents of an owner. A schedule that stopped by itself is named once, although
    its failure is an incident, too; and so is one that works again, unless it failed since."""
    stopped = {each.schedule for each in incidents if each.trouble in _STOPS and each.recovered is None}
    incidents = [each for each in incidents if each.trouble != Trouble.FAILED or each.schedule not in stopped]
    incidents = [each._replace(trouble=trouble_to_tell(each, messenger)) for each in incidents]
    unwell = [each for each in incidents if each.recovered is None]
    failing = {each.schedule for each in unwell}
    well = {each.schedule: each for each in incidents if each.schedule not in failing}
    incidents = [*unwell, *well.values()]
    first = incidents[0]
    all_well = all(each.recovered is not None for each in incidents)
    if len(incidents) == 1:
        title, text = _headline(first), "" if all_well else first.text
        text = f"{text or title}\nTags: {', '.join(first.tags)}" if first.tags else text
    else:
        title = f"{len(incidents)} problems are over" if all_well else f"{len(incidents)} problems need attention"
        lines = [_line(each) for each in incidents[:MAX_INCIDENTS_LISTED]]
        rest = len(incidents) - len(lines)
        text = "\n".join([*lines, *([f"and {rest} more"] if rest else [])])
    key = f"{ALERT_KEY}{first.id}.{now}"
    tags = shown_tags(tag for each in incidents for tag in each.tags)
    run = () if first.run is None else (f"run-{first.run}",)
    return OwnerMessage(first.owner, key, ALERTS, title[:200], text or title, went_well=all_well, tags=(*run, *tags))


_HEADLINES: Final[Mapping[str, str]] = {
    Trouble.FAILED: "{} failed",
    Trouble.MISSED: "{} was missed",
    Trouble.UNTAKEN: "{} waits: nobody took it",
    Trouble.UNDELIVERED: "{} was not delivered",
    Trouble.PAUSED: "{} is paused",
    Trouble.BROKEN: "{} cannot run any more",
    Trouble.HELD: "{} waits: it cannot run now",
}


def headline(trouble: str, name: str) -> str:
    return _HEADLINES.get(trouble, "{} needs attention").format(name)  # a newer version may know further troubles


def _headline(incident: IncidentRow) -> str:
    if incident.recovered is not None:
        return f"{incident.name} works again"
    words = headline(incident.trouble, incident.name)
    return f"Still open: {words}" if incident.last_told is not None else words


def _line(incident: IncidentRow) -> str:
    text = "" if incident.recovered is not None else f": {incident.text.splitlines()[0][:120]}"
    tags = f" [{', '.join(incident.tags)}]" if incident.tags else ""
    return f"{_headline(incident)}{tags}{text}"
