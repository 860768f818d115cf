"""Notifications that QStash keeps and fires, so that they are sent while this machine is off.

The owner of each is stored here and checked first. QStash sends to the ntfy server of the settings.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.queries import could_be_an_id
from duetime.engine.redaction import without_secrets
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store_interfaces import Remote, RemoteKind, RemoteState
from duetime.kinds.notifications.channels.ntfy import NtfyServer, address_of
from duetime.kinds.notifications.qstash.client import (
    Account,
    QStashClient,
    QStashError,
    changing,
    logged,
    problem_with,
)
from duetime.kinds.notifications.qstash.create import CONFIRMED, WINDOW, Maker, following, notification
from duetime.kinds.notifications.service import (
    AT_ONCE,
    PATIENCE,
    SUBSCRIBE,
    NewNotification,
    Notification,
    Sent,
    in_order,
    told,
)
from duetime.net.client import Http
from duetime.service.kind_spec import ScheduleWarning
from duetime.service.when import When

P = ParamSpec("P")
T = TypeVar("T")

QSTASH = "qstash"
UNHURRIED = 10.0
"""Seconds that anything but a send may take; a change makes two requests, each with half of them."""
LARGEST_ANSWER = 32 * 1024 * 1024
"""Maximum bytes of a response: all schedules of an account come in one."""
FEW = 10
"""Maximum number of unconfirmed messages that a list looks up at QStash, one by one."""
_NOT_FOUND = Err("not_found")
_STATES = {"pause": RemoteState.PAUSED, "resume": RemoteState.THERE}


def _ready(
    method: Callable[Concatenate[QStashNotifications, P], Result[T]],
) -> Callable[Concatenate[QStashNotifications, P], Result[T]]:
    """Return whatever goes wrong as an error value, without the secrets that QStash may quote."""

    @functools.wraps(method)
    def answered(self: QStashNotifications, /, *args: P.args, **kwargs: P.kwargs) -> Result[T]:
        if self.problem is not None:
            return Err("api_error", self.problem)
        try:
            result = told(method)(self, *args, **kwargs)
        except QStashError as error:
            result = Err("api_error", error.reason)
        if isinstance(result, Err):
            return Err(result.code, without_secrets(result.message), result.details)
        return result

    return answered


class QStashNotifications:
    fires_here = False

    def __init__(
        self,
        scheduler: Scheduler,
        account: Account,
        server: NtfyServer,
        channels: Callable[[str], Collection[str]] = lambda _owner: (),
        *,
        patience: float = UNHURRIED,
    ) -> None:
        self._store, self._clock = scheduler.store, scheduler.clock
        self._patience = patience
        self._account, self._server = account, server
        self._maker = Maker(scheduler, server, channels)
        self._http = Http(scheduler.clock, None, largest=LARGEST_ANSWER, resends=False)
        self._opening = threading.Lock()
        self._clients: dict[float, QStashClient] = {}
        self.problem = problem_with(account, server)
        """What is wrong with the settings, in a form that may be shown."""

    def close(self) -> None:
        self._http.close()

    def _client(self, longest: float = UNHURRIED) -> QStashClient:
        patience = min(longest, self._patience)
        with self._opening:
            if patience not in self._clients:
                hidden = (self._server.token, self._server.prefix)
                self._clients[patience] = QStashClient(
                    self._http, self._account.url, self._account.token, patience, hidden
                )
            return self._clients[patience]

    @_ready
    def create(self, caller: Caller, new: NewNotification, when: When) -> Result[Notification]:
        made = self._maker.make(self._client(), caller, new.as_schedule(when))
        if isinstance(made, Err):
            return made
        found = notification(made.value, self._clock.now())
        return Ok(found._replace(warnings=self.warnings(new.topic, caller.owner)))

    @_ready
    def send(self, caller: Caller, new: NewNotification) -> Result[Sent]:
        made = self._maker.make(self._client(PATIENCE), caller, new.as_schedule(AT_ONCE))
        if not isinstance(made, Err):
            return Ok(Sent(made.value.id, made.value.topic, QSTASH))
        if "id" in made.details:
            return Ok(Sent(made.details["id"], new.topic, None, made.message))
        return made

    @_ready
    def scheduled(self, caller: Caller, topic: str | None = None) -> Result[list[Notification]]:
        now = self._clock.now()
        own = self._store.remotes(caller.owner, now, topic)
        schedules = self._recurring([each for each in own if each.kind == RemoteKind.SCHEDULE], now)
        messages = self._messages([each for each in own if each.kind == RemoteKind.MESSAGE], now)
        return Ok(in_order([*schedules, *messages]))

    def _recurring(self, own: list[Remote], now: Instant) -> Iterator[Notification]:
        listed = self._client().ask(lambda sdk: sdk.schedule.list()) if own else []
        there = {each.schedule_id: each for each in listed}
        for each in own:
            name = each.remote or each.id
            if each.state not in CONFIRMED:
                self._reconcile(each, name if name in there else None, now)
            if name in there:
                yield notification(each, now, there[name])

    def _messages(self, own: list[Remote], now: Instant) -> Iterator[Notification]:
        unconfirmed = [each for each in own if each.state not in CONFIRMED]
        for each in own:
            if each.state in CONFIRMED:
                yield notification(each, now)
        for each in unconfirmed[:FEW]:
            name = self._client().ask(partial(logged, each))
            self._reconcile(each, name, now)
            if name is not None:
                yield notification(each, now)

    def _reconcile(self, remote: Remote, name: str | None, now: Instant) -> None:
        """Confirm an unconfirmed record if QStash has it, by this name; otherwise delete it after the window."""
        if name is not None:
            self._maker.keep(remote._replace(remote=name), RemoteState.THERE)
        elif remote.updated < now - WINDOW:
            self._store.forget_remote(remote.id)

    def actions(self, id: str) -> tuple[str, ...]:
        remote = self._store.remote(id) if could_be_an_id(id) else None
        if remote is None:
            return ()
        return ("pause", "resume", "delete") if remote.kind == RemoteKind.SCHEDULE else ("delete",)

    def changes(self, caller: Caller, topic: str) -> object:
        """Use the local record, which also tells when it fires, so that QStash is not polled several times a second."""
        now = self._clock.now()
        return [
            (id, state, updated, at or (None if state == RemoteState.PAUSED else following(trigger, now)))
            for id, state, updated, at, trigger in self._store.remote_marks(caller.owner, topic, now)
        ]

    def warnings(self, topic: str, owner: str = LOCAL) -> list[ScheduleWarning]:
        address = "" if owner == LOCAL else address_of(self._server, topic, owner)
        return [ScheduleWarning("subscribe", SUBSCRIBE.format(topic=topic, address=address))] if address else []

    @_ready
    def check(self) -> Result[int]:
        """Return how many schedules the account has, whoever created them."""
        return Ok(len(self._client().ask(lambda sdk: sdk.schedule.list())))

    @_ready
    def change(self, caller: Caller, action: str, id: str) -> Result[None]:
        remote = self._own(caller, id)
        if remote is None or (remote.kind == RemoteKind.MESSAGE and action != "delete"):
            return _NOT_FOUND
        if remote.kind == RemoteKind.MESSAGE and remote.remote is None:
            remote = remote._replace(remote=self._client().ask(partial(logged, remote)))
            if remote.remote is None:
                return _NOT_FOUND
        try:
            self._client(UNHURRIED / 2).ask(changing(remote, action))
        except QStashError as error:
            if not error.missing:
                raise
            if action != "delete" or not error.repeated:  # else an attempt whose response was lost deleted it
                return _NOT_FOUND
        if action == "delete":
            self._store.forget_remote(remote.id)
        else:
            self._maker.keep(remote._replace(remote=remote.remote or remote.id), _STATES[action])
        return Ok(None)

    def _own(self, caller: Caller, schedule_id: str) -> Remote | None:
        """Return the record, or None for another owner's, exactly as for one that does not exist."""
        remote = self._store.remote(schedule_id) if could_be_an_id(schedule_id) else None
        return remote if remote is not None and (caller.operator or remote.owner == caller.owner) else None
