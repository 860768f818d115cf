"""The values that every interface shows of schedules, runs, messages and workers: the one declaration of their fields.

The response models of the HTTP API are these classes; their docstrings are part of its OpenAPI document, so they
describe the data to its users. `presenters` makes their plain form, which JSON has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from duetime.engine.value_class import dataclass

Plain = dict[str, Any]
"""A value as JSON has it: instants are texts in ISO 8601 with an offset."""


class Value:
    """A frozen value. Its attributes are read from its plain form when they are used: many values are made of which
    nobody reads more than the id."""

    __slots__ = ("_plain", "_zone")
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "use_attribute_docstrings": True}
    """For the HTTP API, which describes it: it has no other fields, and their docstrings are their descriptions."""
    _plain: Callable[[], Plain]
    _zone: str

    def __init__(self, plain: Callable[[], Plain], zone: str) -> None:
        object.__setattr__(self, "_plain", plain)
        object.__setattr__(self, "_zone", zone)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, as the HTTP API does: times are texts in ISO 8601 with an offset."""
        return self._plain().copy()

    def __repr__(self) -> str:
        """Return what identifies it, without its payload, which may contain credentials."""
        type_: Any = type(self)
        names = (
            name for name in ("id", "event_id", "run_id", "name", "status", "at", "reads_as") if name in _readers(type_)
        )
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickles and copies, which of a schedule have no methods: they belong to an open store."""
        declared = next(each for each in type(self).__mro__ if "__dataclass_params__" in vars(each))
        return declared, (self.as_dict().copy, self._zone)

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            """Read an attribute when it is used for the first time, and keep it."""
            if name not in (readers := _readers(type(self))):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            read, default = readers[name]
            plain = self._plain()
            object.__setattr__(self, "_plain", plain.copy)  # is made once
            value = plain[name] if name in plain else default()
            value = value if read is None or value is None else read(value, self._zone)
            object.__setattr__(self, name, value)
            return value


Reader = Callable[[Any, str], Any]


@cache
def _readers(type_: Any) -> dict[str, tuple[Reader | None, Callable[[], Any]]]:
    """Return how each attribute of a class is read from its plain form, and its value if that does not have it."""
    hints = get_type_hints(type_)
    return {each.name: (_reader(hints[each.name]), _default(each)) for each in fields(type_)}


def _reader(hint: Any) -> Reader | None:
    """Return the function that reads values of a type; None if they stay as they are."""
    parts = (hint, *get_args(hint)) if get_origin(hint) is not dict else ()
    if datetime in parts:
        return _time
    if str in parts and get_origin(hint) is not list:
        return lambda value, _: str(value)  # not the member of an enumeration
    items = next((each for each in parts if isinstance(each, type) and issubclass(each, Value)), None)
    return None if items is None else lambda values, zone: [items(each.copy, zone) for each in values]


def _time(text: str, zone: str) -> datetime:
    """Return a time in the zone, or one that is in UTC beside it as it is."""
    time = datetime.fromisoformat(text)
    local = time.astimezone(ZoneInfo(zone))
    return local if local.utcoffset() == time.utcoffset() else time


def _default(declared: Field[Any]) -> Callable[[], Any]:
    if declared.default_factory is not MISSING:
        return declared.default_factory
    return lambda: None if declared.default is MISSING else declared.default


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Schedule(Value):
    """A schedule of any kind."""

    id: str
    """Such as job_5_1770000000."""
    short_id: str
    """The id that people read and type, such as j5; it is taken wherever an id is."""
    kind: str
    """job, prompt, notification, request, or a kind of another package."""
    owner: str
    """Who it belongs to."""
    name: str
    """Its name in lists."""
    subject: str
    """The task, agent, topic or host."""
    status: str
    """pending, running, paused, completed, failed, cancelled or broken."""
    state_detail: str | None
    """More about an active schedule: due, waiting_for_agent, taken, held_by_limit, running or, if it follows another
    one, what_it_follows_is_cancelled or _deleted."""
    trigger: dict[str, Any]
    """The trigger in the form in which it can be created."""
    reads_as: str
    """The trigger in plain English."""
    timezone: str | None
    """The time zone of the trigger."""
    payload: Any
    """What to do, with credentials shown as ***."""
    author: str | None
    """Who wrote the payload last, such as ada (dashboard) or an agent's run 412 (mcp); null if unknown."""
    source: str | None
    """The file or module that declares it, such as the file nightly, and changes edits back; null if none does."""
    policy: dict[str, Any] | None
    """The policy in force; durations are in seconds."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""
    next_run: datetime | None
    """When it fires next; null while it is paused."""
    last_run: datetime | None
    """When its latest run was due."""
    last_status: str | None
    """How its latest run ended."""
    last_error: str | None
    """The error of its latest run."""
    run_count: int
    """Executed occurrences, and those that are queued behind an earlier run; without retries, missed and skipped
    ones."""
    max_runs: int | None
    """It ends after this many runs."""
    failures_in_a_row: int
    """Consecutive failures up to now."""
    note: str | None
    """Why it is broken, paused, held or ended early."""
    paused_until: datetime | None
    """When it resumes automatically."""
    version: int
    """Changes with every edit."""
    limits: dict[str, Any] = field(default_factory=dict)
    """The limits in force; only in the answer to a create, an edit or a resume."""
    falls_into_pause: str | None = None
    """What the pause skips or holds; only in the answer to a pause."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Run(Value):
    """A run of a schedule: one occurrence, with all of its attempts."""

    run_id: int
    """Its number; the same for every attempt."""
    schedule: str | None
    """The id of its schedule."""
    schedule_short_id: str
    """The id that people read and type, such as j5."""
    kind: str
    """The kind of its schedule."""
    owner: str
    """Who it belongs to."""
    name: str
    """The name of its schedule."""
    cause: str
    """Why it ran: its trigger, or a request to run it now."""
    due: datetime
    """When it was due."""
    status: str
    """pending, queued, running, waiting, completed, failed, cancelled, missed, skipped or lost."""
    state_detail: str | None
    """More about an active run: due, waiting_for_agent, taken, held_by_limit, held, running, or `on` and the name of
    the executor that has it."""
    attempt: int
    """The number of the latest attempt."""
    started: datetime | None
    """When the latest attempt started."""
    finished: datetime | None
    """When it ended."""
    duration_seconds: float | None
    """The duration of its latest attempt."""
    result: Any
    """What it returned, as JSON."""
    error: str | None
    """Why it failed, or was missed or skipped."""
    report: str | None
    """The latest progress text."""
    cost: dict[str, Any] | None
    """What it used, such as tokens and dollars, if known."""
    stopping: bool
    """Whether it was asked to stop."""
    taken_until: datetime | None
    """Until when the agent that took it may finish it."""
    ended: bool | None = None
    """Whether it has ended; only in the answer to somebody who waited for it."""
    reason: str | None = None
    """Why it has not ended although somebody waited for it."""
    warnings: list[str] = field(default_factory=list)
    """Why it might not begin; only in the answer to somebody who started it."""
    warning_codes: list[str] = field(default_factory=list)
    """The codes of the warnings, in the same order."""
    notes: list[str] = field(default_factory=list)
    """What becomes of it and what follows it; only in the answer to somebody who started or stopped it."""
    last: datetime | None = None
    """For a range of occurrences that did not run: its last instant."""
    occurrences: int | None = None
    """For such a range: how many occurrences it has."""
    at_least: bool | None = None
    """Whether there are more occurrences than were counted."""
    schedule_deleted: bool = False
    """Whether its schedule was deleted, so that it cannot be retried; events leave it out."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Created(Schedule):
    """A schedule after it was created or edited, with warnings."""

    warnings: list[str]
    """Why it might not fire or not arrive."""
    warning_codes: list[str]
    """The codes of the warnings, in the same order."""
    notes: list[str] = field(default_factory=list)
    """After an edit: what becomes of runs that have not ended."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class EarlierAttempt(Value):
    """An attempt of a run before its latest one."""

    attempt: int
    """Its number, starting at 1."""
    started: datetime | None
    """When it started."""
    finished: datetime
    """When it ended."""
    status: str
    """How it ended."""
    error: str | None
    """Why it failed."""
    retried: datetime | None
    """When somebody retried the run after this attempt; null if it was retried automatically."""
    retried_by: str | None
    """Who did, such as ada (dashboard)."""
    traceback: str | None
    """Of an exception, with *** in place of credentials."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class RunDetails(Run):
    """A run with its input, its earlier attempts and its traceback."""

    attempts: list[EarlierAttempt]
    """Earlier attempts; the latest one is the run itself."""
    traceback: str | None
    """Of the exception that it failed with, with *** in place of credentials."""
    payload: Any
    """Its input, with *** in place of credentials; null if its schedule was deleted."""
    own_payload: bool
    """Whether it was started with another input than its schedule has."""
    started_by: str | None
    """Who started it by hand, such as ada (dashboard); null if its trigger did."""
    gate: dict[str, Any] | None
    """What `only_if` saw (`result`), why it was not checked (`failure`), or that somebody passed over it (`forced`)."""
    stop_request: dict[str, Any] | None
    """Who asked it to stop (`by`) and when (`at`), also if it went on to its end."""
    payload_changed: bool
    """Whether its schedule was edited after it began: `payload` is then that of now."""
    late_seconds: float | None
    """How long after its time the first attempt began."""
    next_attempt: datetime | None
    """When it is tried again, while it waits for that."""
    usual_seconds: float | None
    """While it is running: how long the latest runs of its schedule that succeeded took, the median."""
    worker: str | None
    """The worker that has it, or had it last. Only operators see it."""
    previous_run: int | None
    """The run of the same schedule that was due before it."""
    following_run: int | None
    """The run of the same schedule that was due after it."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class EmittedEvent(Value):
    """An event that was sent, and what it starts."""

    event_id: int
    """Its number."""
    duplicate: bool
    """Whether an event with its key was sent before, which has this number."""
    notes: list[str] = field(default_factory=list)
    """Which schedules it starts."""
    runs: list[Run] = field(default_factory=list)
    """At most 20 of the runs that it caused, those that failed first, if the sender waited for them."""
    ended: bool = False
    """Whether all of them have ended, and none is still to come."""
    reason: str | None = None
    """Why not."""
    warnings: list[str] = field(default_factory=list)
    """That nothing listens to it."""
    warning_codes: list[str] = field(default_factory=list)
    """The codes of the warnings, in the same order."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class LogLines(Value):
    """Lines that an attempt of a run wrote at about the same time."""

    attempt: int
    """Its number, starting at 1."""
    at: datetime
    """When the first of them was written."""
    text: str
    """What a task printed and logged, what a program wrote, or what a request was answered: data, with *** in place of
    credentials."""
    left_out: int
    """How many bytes before them are not kept."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class RunLog(Value):
    """The log of a run, or what was added to it."""

    run_id: int
    """The run."""
    status: str
    """Its status."""
    ended: bool
    """Whether nothing will be added."""
    log: list[LogLines]
    """What it wrote, in order."""
    next: str | None
    """Give it as `after`, to read what is added from here on."""
    more: bool
    """Whether there is more already."""

    @property
    def text(self) -> str:
        """All lines as one text."""
        return "".join(each.text for each in self.log)


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Message(Value):
    """A notification that was delivered."""

    run_id: int
    """The run that delivered it."""
    schedule: str | None
    """The id of its schedule."""
    schedule_short_id: str
    """The id that people read and type, such as n5."""
    mark: str
    """`unread`, `read` or `dismissed`."""
    id: str | None
    """The id of the message."""
    arrived: datetime | None
    """When it was delivered."""
    topic: str
    """The topic it was sent to."""
    channel: str
    """How it was delivered, such as ntfy or inbox."""
    receipt: Any
    """What the receiver answered."""
    title: str | None
    """Its title."""
    message: str
    """Its text."""
    tags: list[str]
    """Its tags."""
    priority: int | None
    """Its priority, 1 (lowest) to 5 (highest)."""
    click: str | None
    """The address that it opens."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Incident(Value):
    """What needs attention: what is wrong with a schedule, from the first time until it goes well again; or a run that
    failed, was missed or waits for somebody."""

    key: str | None
    """How resolve and reopen name it, such as `incident-3` or `run-91`; null if only a resume or an edit helps."""
    id: str | None
    """The id of the schedule."""
    short_id: str
    """The id that people read and type, such as j5."""
    name: str
    """The name of the schedule."""
    owner: str
    """Who it belongs to."""
    kind: str
    """Its kind, such as job."""
    tags: list[str]
    """The tags of the schedule."""
    trouble: str
    """failed, missed, untaken, undelivered, paused, broken or held."""
    headline: str
    """What is wrong, in a few words."""
    text: str
    """The latest error."""
    next_step: str
    """What helps."""
    run_id: int | None
    """The latest run that it concerns; marking that as resolved resolves the incident."""
    run_status: str | None
    """The status of that run; null if it was deleted."""
    since: datetime
    """When it went wrong for the first time."""
    last: datetime
    """When it went wrong last."""
    count: int
    """How often it went wrong."""
    status: str
    """open or resolved."""
    resolved_by: str | None
    """Who resolved it."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class PreviewedTime(Value):
    """A time at which a schedule would fire."""

    utc: datetime
    """In UTC."""
    local: datetime
    """In the time zone of the schedule."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Preview(Value):
    """When a schedule would fire."""

    reads_as: str
    """The trigger in plain English."""
    timezone: str
    """The time zone in which it is evaluated."""
    next: list[PreviewedTime]
    """The next times."""
    warnings: list[str]
    """What may be unexpected."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Occurrence(Value):
    """A time at which a schedule fires."""

    at: datetime
    """When it fires."""
    kind: str
    """The kind of the schedule."""
    id: str
    """The id of the schedule."""
    short_id: str
    """The id that people read and type, such as j5."""
    name: str
    """The name of the schedule."""
    reads_as: str
    """The trigger in plain English."""
    topic: str | None
    """The topic that it sends to, or that receives its results."""
    owner: str
    """Who it belongs to."""
    paused: bool = False
    """Whether it is paused, and fires only if it is resumed."""
    times: list[str] = field(default_factory=list)
    """In a window of more than a day, and if not all times fit: its first times there."""
    more_times: bool = False
    """Whether it has further times there."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Upcoming(Value):
    """Occurrences in time order."""

    upcoming: list[Occurrence]
    """The occurrences."""
    count: int
    """How many are listed."""
    more: bool
    """Whether further schedules fire in the range, or wait for events."""
    on_events: list[dict[str, Any]] = field(default_factory=list)
    """Schedules that wait for an event, and so have no time."""
    window: dict[str, str] = field(default_factory=dict)
    """The range as it was understood: `from` and `until`, if they were given."""
    timezone: str
    """The time zone in which the times are shown."""
    warnings: list[str] = field(default_factory=list)
    """Why something may be missing."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class WorkerState(Value):
    """A worker of the store."""

    id: int
    """Its number."""
    name: str
    """The host and process."""
    lanes: list[str]
    """The lanes of the due queue that it takes work from."""
    labels: list[str]
    """Its labels: only workers with a label run tasks that need it."""
    session: bool
    """Whether it ends when its client is closed."""
    started: datetime
    """When it started."""
    seen: datetime
    """When it last renewed its lease."""
    alive: bool
    """Whether its lease is valid."""
    lease_seconds: float
    """How long it may stay silent before others take over."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Hook(Value):
    """An address at which another service reports events."""

    id: str
    """Its id."""
    name: str
    """The first part of the names of its events."""
    scheme: str
    """How the sender proves itself: `github`, `standard`, `stripe`, `hmac` or `url`."""
    url: str
    """Where deliveries are sent. A secret address is shown in full only together with its secret."""
    owner: str
    """Whose schedules its events reach."""
    created: datetime
    """When it was created."""
    last_used: datetime | None
    """When it last accepted a delivery."""
    has_secret: bool
    """Whether somebody has asked for its secret; nothing is accepted before."""
    deliveries: list[dict[str, Any]]
    """The latest: `at`, with `event`, `event_id` and `duplicate`, or with `status`, `error` and `count`."""
    secret: str | None = None
    """The secret, only in the answer that creates or rotates it."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class ServerStatus(Value):
    """The state of a server: what is set up, whether it works, usage and failures."""

    __pydantic_config__ = {**Value.__pydantic_config__, "extra": "allow"}  # noqa: RUF012  # kinds add fields to it
    now: datetime
    """The current time."""
    timezone: str
    """The time zone in use."""
    server: dict[str, Any]
    """Where it runs, its workers, and whether it keeps running without an agent client."""
    topics: list[str]
    """Topics that schedules send to."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The names of the events that arrived, each with the time of the latest one."""
    agents: list[dict[str, Any]] = field(default_factory=list)
    """The agents of the settings."""
    executors: list[dict[str, Any]] = field(default_factory=list)
    """Clusters that run tasks, if there are any: their workers, how many runs are out, and the oldest."""
    channels: list[dict[str, Any]] = field(default_factory=list)
    """The channels of the settings."""
    hooks: list[dict[str, Any]] = field(default_factory=list)
    """Addresses at which other services report events, and when they last did."""
    default_topic: str | None = None
    """The topic of notifications that name none."""
    spent: dict[str, Any] = field(default_factory=dict)
    """What agents used today and this week."""
    limits: dict[str, Any]
    """The limits in force."""
    all_right: bool
    """Whether nothing below needs a person."""
    problems: list[Incident]
    """What is wrong with schedules, the latest first."""
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """What waits for somebody to take it, and since when."""
    long_runs: list[dict[str, Any]] = field(default_factory=list)
    """What has been running for more than an hour, and since when."""
    paused: list[dict[str, Any]] = field(default_factory=list)
    """What is paused, until when and why."""
    failures_of_the_last_day: dict[str, Any]
    """What failed within the last 24 hours."""
    when_off: str
    """What happens to work that is due while no worker runs."""
    warnings: list[dict[str, str]]
    """What needs attention, with codes."""
    warning_codes: dict[str, str]
    """What the codes of these warnings mean."""


ANSWERS = tuple(each for each in [*globals().values()] if isinstance(each, type) and Value in each.__mro__[1:])
