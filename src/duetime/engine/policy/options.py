"""The policy of a schedule: its options, their defaults and their stored form; also the syntax of topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, fields
from enum import StrEnum
from functools import lru_cache
from itertools import compress
from operator import attrgetter, ne
from typing import Any, Final, Literal, TypeVar

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND
from duetime.engine.encoding import is_text, json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.text_cache import text_cache
from duetime.engine.value_class import NamedTuple, dataclass, pattern

# Topics: the name under which a message is filed, and to which its receiver subscribes.

TOPIC = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_TOPIC = pattern(TOPIC[1:-1])
_MAX_TOPIC = 200

ALERTS = "duetime-alerts"
"""The topic of alerts that need a person, for schedules that name no topic."""


def is_topic(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _MAX_TOPIC and _TOPIC.fullmatch(text) is not None


def checked_topic(text: object, field: str = "topic") -> str:
    if isinstance(text, str) and is_topic(text):
        return text
    if text is None or text == "":
        raise InvalidInput(field=field, problem="must not be empty; give a topic such as home-alerts")
    raise InvalidInput(
        field=field,
        problem=(
            f"must be lowercase letters and digits, joined by single hyphens, at most {_MAX_TOPIC} characters: for"
            f" example home-alerts; not {repr(text)[:80]}"
        ),
    )


# Tags: texts by which schedules are found, changed together, and their alerts are sent to another topic. Labels of
# workers are written like tags.

MAX_TAGS: Final = 10
_TAG = pattern(r"[a-z0-9][a-z0-9._-]{0,39}")


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def checked_tag(text: str, field: str = "tagged") -> str:
    if not is_tag(text):
        rule = "lowercase letters, digits, dots, hyphens and underscores, at most 40 characters"
        raise InvalidInput(field=field, problem=f"a tag has {rule}, such as nightly; not {text[:80]!r}")
    return text


def tags_in(text: str | None) -> list[str]:
    """Return the tags of a text with commas, as a policy has them and as people type them."""
    return [tag for part in (text or "").split(",") if (tag := part.strip())]


def _tags_text(value: Any, field: str = "tagged") -> str | None:
    """Return tags as they are stored, in order and with a comma around each, so that one can be found in the text."""
    parts = tags_in(value) if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(each, str) for each in parts):
        raise InvalidInput(field=field, problem='must be a list of tags, such as ["backup", "nightly"]')
    tags = sorted({checked_tag(each, field) for each in parts})
    if len(tags) > MAX_TAGS:
        raise InvalidInput(field=field, problem=f"at most {MAX_TAGS} tags; leave some out")
    return f",{','.join(tags)}," if tags else None


CALLBACK_ATTEMPTS = 10
"""Default number of attempts of a callback: with the default backoff, they take about an hour and a half."""


class CatchUp(StrEnum):
    ONCE = "once"
    ALL = "all"
    SKIP = "skip"


class Overlap(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"
    LATEST = "latest"  # for events: the newest one replaces the one that waits


class Untaken(StrEnum):
    """What happens to an occurrence that waits and that nobody has taken."""

    REPLACE = "replace"  # it ends as missed when the next one is due
    KEEP = "keep"  # it waits until somebody takes it; `overlap` decides about the next one
    EXPIRE = "expire"  # it ends as missed after `expire_after`


class NotifyOn(StrEnum):
    ALWAYS = "always"
    FAILURE = "failure"
    SUCCESS = "success"
    CHANGE = "change"  # any outcome that differs from the one that was told last


class GateFailure(StrEnum):
    """What happens if the gate of a schedule cannot be checked."""

    RUN = "run"  # the work is done, and the run says why its gate failed
    SKIP = "skip"


class AlertMode(StrEnum):
    FIRST = "first"  # when something goes wrong for the first time, and when it goes well again
    EVERY = "every"  # also every further time
    OFF = "off"


class OptionRule(NamedTuple):
    """The values that an option accepts. Durations and their bounds are in microseconds."""

    type: Literal["choice", "count", "duration", "flag", "topic", "address", "callbacks", "gate", "tags", "label"]
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    is_for_people: bool = False
    """Whether an agent's run can neither set, change nor remove it."""


_T = TypeVar("_T")
_RULE: Final = "rule"
SHORTEST_TIMEOUT = SECOND // 1000
LONGEST_GATE: Final = 4096
"""Maximum characters of a gate."""


def _option(default: _T, rule: OptionRule) -> _T:
    return field(default=default, metadata={_RULE: rule})


def _choice(default: StrEnum) -> str:
    return _option(str(default), OptionRule("choice", choices=tuple(map(str, type(default)))))


def _count(default: _T, low: int, high: int) -> _T:
    return _option(default, OptionRule("count", low, high))


def _duration(default: _T, low: int, high: int) -> _T:
    return _option(default, OptionRule("duration", low, high))


@dataclass(frozen=True, slots=True)
class Callback:
    """Work of another kind that starts when a run ends; it receives the details of that run."""

    on: str
    kind: str
    payload: Mapping[str, Any]
    policy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """The options of a schedule. Durations are in microseconds."""

    catch_up: str = _choice(CatchUp.ONCE)
    catch_up_limit: int = _count(100, 1, 1000)
    overlap: str = _choice(Overlap.SKIP)
    queue_limit: int = _count(100, 1, 10_000)
    max_attempts: int = _count(1, 1, 100)
    backoff: int = _duration(10 * SECOND, 1, 30 * DAY)
    backoff_limit: int = _duration(1 * HOUR, 1, 30 * DAY)
    timeout: int | None = _duration(None, SHORTEST_TIMEOUT, 30 * DAY)
    at_most_once: bool = _option(False, OptionRule("flag"))
    max_runs: int | None = _count(None, 1, 2**53)
    grace: int = _duration(1 * MINUTE, 0, 365 * DAY)
    pause_after: int = _count(10, 0, 1_000_000)
    """Consecutive failures after which a recurring schedule is paused and its owner alerted; 0 means never."""
    deliver_to: str | None = _option(None, OptionRule("topic"))
    """The topic that receives a message about the end of each run."""
    notify_on: str = _choice(NotifyOn.ALWAYS)
    alert: str = _choice(AlertMode.FIRST)
    """When the owner is told that something is wrong with the schedule."""
    callbacks: tuple[Callback, ...] = _option((), OptionRule("callbacks"))
    untaken: str = _choice(Untaken.REPLACE)
    expire_after: int | None = _duration(None, SECOND, 365 * DAY)
    ping: str | None = _option(None, OptionRule("address", is_for_people=True))
    """An address of a monitoring service that is called when a run starts, succeeds and fails."""
    only_if: str | None = _option(None, OptionRule("gate"))
    """The gate: a pipeline of tasks that is checked before the work, which is done only if it lets something pass."""
    gate_failure: str = _choice(GateFailure.RUN)
    tagged: str | None = _option(None, OptionRule("tags"))
    """Its tags with a comma around each: `,backup,nightly,`."""
    needs: str | None = _option(None, OptionRule("label"))
    """The label of the workers that may run it; it follows from the payload."""

    @property
    def is_observed(self) -> bool:
        """Return whether observers of the store learn when a run begins and ends."""
        return self.ping is not None


RULES: Final[Mapping[str, OptionRule]] = {item.name: item.metadata[_RULE] for item in fields(Policy)}
"""What each option accepts, including callbacks and `needs`, which only kinds set."""
_DEFAULTS = {item.name: item.default for item in fields(Policy)}
_values_of = attrgetter(*_DEFAULTS)


def make_policy(options: Mapping[str, Any]) -> Policy:
    """Build a policy from a caller's options; an absent or null option gets its default."""
    values = {name: value for name, value in options.items() if value is not None}
    for name, value in values.items():
        _check(name, value)
    if "callbacks" in values:
        values["callbacks"] = tuple(_callback(each) for each in values["callbacks"])
    if "tagged" in values:
        values["tagged"] = _tags_text(values["tagged"])
    policy = Policy(**values)
    if "notify_on" in values and policy.deliver_to is None:
        raise InvalidInput(field="notify_on", problem="needs deliver_to, the topic to notify")
    if "gate_failure" in values and policy.only_if is None:
        raise InvalidInput(field="gate_failure", problem="needs only_if, the gate that may fail")
    if (policy.untaken == Untaken.EXPIRE) != (policy.expire_after is not None):
        lonely = "untaken" if policy.expire_after is None else "expire_after"
        raise InvalidInput(field=lonely, problem="untaken expire and expire_after, such as 2 hours, go together")
    if policy.at_most_once and policy.max_attempts > 1:
        raise InvalidInput(
            field="max_attempts", problem="work that runs at most once cannot be retried; leave one of the two out"
        )
    return policy


@lru_cache(maxsize=4096, typed=True)
def _make_with_text(names: tuple[str, ...], types: tuple[type, ...], values: tuple[Any, ...]) -> tuple[Policy, str]:
    """Build a policy and its text; the types are part of the cache key, because True equals 1."""
    policy = make_policy(dict(zip(names, values, strict=True)))
    return policy, policy_to_json(policy)


def policy_with_json(options: Mapping[str, Any]) -> tuple[Policy, str]:
    """Return the policy of `make_policy` and its stored form; cached, because most schedules of a process share a few
    policies."""
    values = tuple(options.values())
    try:
        return _make_with_text(tuple(options), tuple(map(type, values)), values)
    except TypeError:  # callbacks are not hashable
        policy = make_policy(options)
        return policy, policy_to_json(policy)


def _check(name: str, value: Any) -> None:
    rule = RULES.get(name)
    if rule is None:
        raise InvalidInput(field=name, problem=f"unknown policy; choose from {', '.join(sorted(RULES))}")
    type_, low, high, choices, _ = rule
    if high:  # a count or a duration
        if type(value) is not int or not low <= value <= high:
            raise InvalidInput(field=name, problem=_out_of_range(rule, value))
    elif choices:
        if value not in choices:
            raise InvalidInput(field=name, problem=f"must be one of {', '.join(choices)}, not {value!r}")
    elif type_ == "flag":
        if type(value) is not bool:
            raise InvalidInput(field=name, problem=f"must be true or false, not {value!r}")
    elif type_ in _CHECKS:
        _CHECKS[type_](name, value)
    elif not isinstance(value, list | tuple):
        raise InvalidInput(field=name, problem="must be a list")


def _check_address(name: str, value: Any) -> None:
    from duetime.engine.redaction import MASK  # only schedules with an address need these
    from duetime.engine.urls import BadAddress, read_url

    try:
        read_url(str(value))
    except BadAddress as error:
        raise InvalidInput(field=name, problem=f"{error}, such as https://example.org/status") from None
    if MASK in value:
        raise InvalidInput(field=name, problem=f"{MASK} stands for a hidden value; give the whole address")


def _check_gate(name: str, value: Any) -> None:
    """Check the form of a gate; the kind that has the tasks checks the rest. A masked one would never work."""
    from duetime.engine.redaction import MASK  # only schedules with a gate need it

    if not (isinstance(value, str) and value.strip() and is_text(value)) or len(value) > LONGEST_GATE or MASK in value:
        problem = f"must be a pipeline of tasks of at most {LONGEST_GATE} characters, such as echo('x') | changed()"
        raise InvalidInput(field=name, problem=problem)


_CHECKS: Final[Mapping[str, Callable[[str, Any], object]]] = {
    "topic": lambda name, value: checked_topic(value, name),
    "address": _check_address,
    "gate": _check_gate,
    "tags": lambda name, value: _tags_text(value, name),
    "label": lambda name, value: checked_tag(str(value), name),
}


def _out_of_range(rule: OptionRule, value: Any) -> str:
    if rule.type == "count":
        return f"must be a whole number from {rule.low} to {rule.high}, not {value!r}"
    least = "more than 0" if rule.low == 1 else f"at least {rule.low / SECOND:g}"
    return f"must be {least} and at most {rule.high // SECOND} seconds"


def _callback(value: Any) -> Callback:
    """Check one callback. Kinds create callbacks, never users: an invalid one was edited in the database."""
    if isinstance(value, Callback):
        return value
    try:
        callback = Callback(**value)
    except TypeError as error:
        raise InvalidInput(field="callbacks", problem="each has on, kind, payload and policy") from error
    texts: tuple[object, ...] = (callback.on, callback.kind)
    tables: tuple[object, ...] = (callback.payload, callback.policy)
    fits = all(isinstance(each, str) for each in texts) and all(isinstance(each, Mapping) for each in tables)
    if not fits or callback.on not in list(NotifyOn):
        raise InvalidInput(field="callbacks", problem="each has on, kind, payload and policy")
    callback_policy(callback)  # a run must be able to end, so an invalid policy has to be detected here
    return callback


def callback_policy(callback: Callback) -> Policy:
    """Return the policy of a callback. Raises InvalidInput."""
    return make_policy({"max_attempts": CALLBACK_ATTEMPTS, **callback.policy})


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=asdict).encode


def policy_to_json(policy: Policy) -> str:
    """Serialize only what differs from the defaults, so that most schedules store `{}`."""
    values = _values_of(policy)
    return _encode(dict(compress(zip(_DEFAULTS, values, strict=True), map(ne, values, _DEFAULTS.values()))))


MOST_LONG: Final = 64
"""Number of long policies to cache: callbacks with many headers make them large."""


@text_cache(4096, MOST_LONG)
def policy_from_json(text: str) -> Policy:
    """Parse and check a stored policy: one that was edited in the database must fail here, not in the middle of a
    decision."""
    stored = json_object(text)
    if stored is None:
        raise InvalidInput("the stored policy is not a JSON object", field="policy")
    timeout = stored.get("timeout")
    if isinstance(timeout, int) and 0 < timeout < SHORTEST_TIMEOUT:  # as earlier versions accepted it
        stored["timeout"] = SHORTEST_TIMEOUT
    return make_policy(stored)


NO_OPTIONS: Final = "{}"
"""The stored policy of most schedules."""
CAUTIOUS = Policy(at_most_once=True)


@text_cache(4096, MOST_LONG)
def policy_for_ending(text: str) -> Policy:
    """Return a policy in any case, because a run must be able to end; an unreadable policy becomes one that
    restarts nothing."""
    try:
        return policy_from_json(text)
    except InvalidInput:
        return CAUTIOUS


_GATE: Final = '"only_if"'
_TAGS: Final = '"tagged"'


def is_gated(text: str) -> bool:
    """Return whether a stored policy has a gate. Most have no such word, so that nothing is parsed for them."""
    return _GATE in text and policy_for_ending(text).only_if is not None


def tags_of(text: str) -> list[str]:
    """Return the tags in a stored policy. Most have no such word either. The palette asks this of a thousand schedules
    at each key, and the cache keeps few long policies, such as those with callbacks."""
    return tags_in(policy_for_ending(text).tagged) if _TAGS in text else []
