"""Creating schedules of every kind from Python."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Protocol, Unpack

from duetime.api.methods import Opened, method
from duetime.api.types import Allow, ScheduleOptions
from duetime.api.values import Schedule, schedule_method, schedule_of
from duetime.engine.errors import DuetimeError, InvalidInput, Refused
from duetime.service.answers import Preview
from duetime.service.errors import refuse
from duetime.service.operations.create import CreatedSchedule, CreateSchedule, title_of
from duetime.service.operations.declaration import Answer, check_type, check_types
from duetime.service.operations.schedules import PreviewTimes, preview
from duetime.service.options import TIME_LIMITS, TimeOptions
from duetime.service.warnings import warning_facts
from duetime.service.when import read_seconds

TIMES = frozenset(TimeOptions.__annotations__)
_OPTIONS = frozenset(ScheduleOptions.__annotations__)
_OTHER_NAMES = {"tz": "timezone", "zone": "timezone", "label": "name", "idempotency_key": "key", "run_at": "at"}


class Creator(Opened, Protocol):
    """A store in which schedules are created."""

    def _create(self, request: CreateSchedule) -> Answer[CreatedSchedule]: ...

    def _name_of(self, task: str | Callable[..., object]) -> str: ...


class Creating:
    @schedule_method
    def schedule(
        self: Creator,
        task: str | Callable[..., object],
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create a job, which runs a registered task.

        `task` is the name or the function of a task; `args` and `kwargs` are its arguments, checked against its
        signature. The options say when it runs: exactly one of `when`, `at`, `delay`, `every`, `cron`, `rrule`, `on`
        and `after`.
        """
        name = self._name_of(task)
        if isinstance(args, str | bytes) or not isinstance(args, Iterable):
            raise InvalidInput(field="args", problem=f"must be a list of arguments, such as [{args!r:.60}]")
        payload = {"task": name, "args": list(args), "kwargs": _mapping("kwargs", kwargs) or {}}
        return _create(self, "job", name, payload, options)

    @schedule_method
    def prompt(
        self: Creator,
        text: str,
        *,
        agent: str | None = None,
        allow: Allow | None = None,
        remind: bool | None = None,
        max_runs_per_day: int | None = None,
        max_tokens_per_day: int | None = None,
        max_dollars_per_day: float | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create a prompt, which wakes an agent with instructions; immediately, unless a time is given.

        `agent` is an agent of the settings; by default, the setting `agent`. With `inbox`, the prompt waits until
        someone takes it with `take_prompt`. `allow` narrows what the agent may use. With `remind`, no agent is woken:
        the text is sent as a notification. The limits hold further runs back until the next day.
        """
        payload = _without_none(
            prompt=text, agent=agent, allow=_mapping("allow", allow), remind=remind,
            max_runs_per_day=max_runs_per_day, max_tokens_per_day=max_tokens_per_day,
            max_dollars_per_day=max_dollars_per_day,
        )  # fmt: skip
        return _create(self, "prompt", title_of("prompt", payload), payload, _soon(options))

    @schedule_method
    def notify(
        self: Creator,
        message: str,
        topic: str | None = None,
        *,
        title: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        markdown: bool | None = None,
        click: str | None = None,
        actions: Sequence[Mapping[str, Any]] | None = None,
        icon: str | None = None,
        attach: str | None = None,
        filename: str | None = None,
        label: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create a notification; it is sent immediately, unless a time is given.

        `topic` is a topic or channel; by default, that of the settings. Without a channel or server in the settings, it
        arrives in the built-in inbox. `priority` is 1 (lowest) to 5 (highest). `click` is opened by tapping it,
        `actions` are up to three buttons, `attach` is the URL of a file. `label` is shown in lists.
        """
        payload = _without_none(
            message=message, topic=topic, title=title, priority=priority,
            tags=None if tags is None else _list("tags", tags), markdown=markdown, click=click,
            actions=None if actions is None else [_mapping("actions", each) for each in _list("actions", actions)],
            icon=icon, attach=attach, filename=filename, label=label,
        )  # fmt: skip
        return _create(self, "notification", title_of("notification", payload), payload, _soon(options))

    @schedule_method
    def request(
        self: Creator,
        url: str,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        body: str | bytes | None = None,
        retries: int | None = None,
        retry_delay: str | None = None,
        label: str | None = None,
        callback: str | None = None,
        failure_callback: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create an HTTP request; it is sent immediately, unless a time is given. Any response but 2xx is retried.

        `retry_delay` is a formula in milliseconds, such as `1000 * (1 + retried)`. `callback` is a URL that receives
        the response, `failure_callback` one that is called when all retries failed. Private addresses, including this
        machine, must be allowed by the setting `allowed_hosts`.
        """
        options = options.copy()
        timeout = options.pop("timeout", None)
        payload = _without_none(
            url=url, method=method, headers=_mapping("headers", headers), retries=retries,
            retry_delay=retry_delay, label=label, callback=callback, failure_callback=failure_callback,
            timeout=None if timeout is None else math.ceil(read_seconds(timeout, "timeout")),
        )  # fmt: skip
        if isinstance(body, bytes):
            payload["body_base64"] = base64.b64encode(body).decode()
        elif body is not None:
            payload["body"] = body
        return _create(self, "request", title_of("request", payload), payload, _soon(options))

    @schedule_method
    def create(self: Creator, kind: str, payload: Mapping[str, Any], **options: Unpack[ScheduleOptions]) -> Schedule:
        """Create a schedule of any kind, including kinds from other packages, from its payload."""
        check_type("payload", payload, Mapping)
        return _create(self, kind, title_of(kind, payload), payload, options)

    @method
    def preview(self: Opened, count: int = 5, **times: Unpack[TimeOptions]) -> Preview:
        """Return when a schedule with these times would fire: in words, and the next instants. Nothing is created."""
        if not times.keys() <= TIMES:
            raise _unknown_option(min(times.keys() - TIMES))
        answer, warnings, _ = preview(self._call, PreviewTimes(times=times, count=count))
        zone = times.get("timezone") or self._call.zone
        return Preview(answer.facts(zone, warnings).copy, zone)


def _create(creator: Creator, kind: str, title: str, payload: Mapping[str, Any], options: ScheduleOptions) -> Schedule:
    try:
        (schedule, fresh, limits), warnings, _ = creator._create(_request(kind, title, payload, options))
    except Refused as error:
        raise _about_key(error) from None
    return schedule_of(creator._call, schedule, created=fresh, **warning_facts(warnings), limits=limits)


def _request(kind: str, title: str, payload: Mapping[str, Any], options: ScheduleOptions) -> CreateSchedule:
    """Return the request to create a schedule. `title` is its name, unless the options have one."""
    if options.keys() <= TIMES:
        return CreateSchedule(kind, payload, options, name=title)
    times: dict[str, Any] = dict(options)
    if not times.keys() <= _OPTIONS:
        raise _unknown_option(min(times.keys() - _OPTIONS))
    name, key, on_change = times.pop("name", None), times.pop("key", None), times.pop("on_change", "update")
    if on_change not in ("update", "refuse"):
        raise InvalidInput(field="on_change", problem=f"must be update or refuse, not {on_change!r:.60}")
    policy = {each: times.pop(each) for each in [*times] if each not in TIMES}
    request = CreateSchedule(kind, payload, times, None, policy, name or title, key, on_change)
    check_types(request)
    return request


def _about_key(error: Refused) -> DuetimeError:
    """Return an error about the idempotency key with the name that it has here."""
    if error.field != "idempotency_key":
        return error
    return refuse(error.code, error.message.replace("idempotency_key", "key"), "key")


def _unknown_option(name: str) -> InvalidInput:
    from difflib import get_close_matches  # only an error needs it

    other = _OTHER_NAMES.get(name) or next(iter(get_close_matches(name, sorted(_OPTIONS), 1)), None)
    advice = f"did you mean {other}?" if other else f"choose from {', '.join(sorted(_OPTIONS))}"
    return InvalidInput(field=name, problem=f"there is no such option; {advice}")


def _soon(options: ScheduleOptions) -> ScheduleOptions:
    """Return the options with a time, which is now unless they have one."""
    return options if options.keys() & _WAYS else {**options, "at": "now"}


_WAYS = TIMES - {*TIME_LIMITS, "timezone"}


def _mapping(name: str, value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    check_type(name, value, Mapping, NoneType)
    return None if value is None else dict(value)


def _list(name: str, value: Iterable[Any]) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidInput(field=name, problem=f"must be a list, not {value!r:.80}")
    return list(value)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
