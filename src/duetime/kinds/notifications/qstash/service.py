"""Notifications that QStash keeps and fires, so that they are sent while this machine is off.

The owner of each is stored here and checked first. QStash sends to the ntfy server of the settings.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError, InvalidInput, KeyReused, NotFound
from duetime.engine.fingerprint import fingerprint, is_same_request
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.queries import could_be_an_id
from duetime.engine.redaction import without_secrets
from duetime.engine.scheduler import Scheduler
from duetime.engine.scopes import DELETE, WRITE, check
from duetime.engine.store_interfaces import Remote, RemoteKind, RemoteState
from duetime.engine.triggers import CronTrigger, OnceTrigger, Trigger, trigger_from_json
from duetime.engine.validation import NewSchedule
from duetime.kinds.notifications.channels.ntfy import NtfyServer, address_of, problem_of_topic
from duetime.kinds.notifications.qstash import PLACE
from duetime.kinds.notifications.qstash.client import (
    Account,
    QStashClient,
    QStashError,
    Request,
    changing,
    logged,
    problem_with,
    publishing,
    scheduling,
)
from duetime.kinds.notifications.qstash.records import (
    CONFIRMED,
    WINDOW,
    following,
    notification,
    record_of,
    schedule,
)
from duetime.kinds.notifications.result import as_result, for_callers
from duetime.kinds.notifications.service import KIND, PATIENCE, Notification, Sent, in_order, name_of
from duetime.net.client import Http
from duetime.service.errors import refuse, reword
from duetime.service.kind_spec import KEPT_ELSEWHERE, Outside
from duetime.service.text import listed
from duetime.service.warnings import ScheduleWarning, warning
from duetime.settings.sections import INBOX

P = ParamSpec("P")
T = TypeVar("T")

QSTASH = "qstash"
UNHURRIED = 10.0
"""Seconds that any operation except a send may take; a change makes two requests, each with half of them."""
LARGEST_ANSWER = 32 * 1024 * 1024
"""Maximum bytes of a response: all schedules of an account come in one."""
FEW = 10
"""Maximum number of unconfirmed messages that a list looks up at QStash, one by one."""
API_ERROR = "api_error"
"""Code of the error of a service that cannot be reached or refuses."""
_SUPPORTED_OPTIONS = frozenset({"max_attempts", "timeout", "catch_up", "overlap"})
"""Options of the policy that QStash has; its own handling of downtime and overlaps is harmless."""
_PERHAPS = "QStash may have accepted it anyway; repeating the same request creates no second one"
_STATES = {"pause": RemoteState.PAUSED, "resume": RemoteState.THERE}


def _check_trigger(trigger: Trigger) -> None:
    if not isinstance(trigger, OnceTrigger | CronTrigger) or trigger.start or trigger.end or trigger.jitter:
        rule = (
            "QStash, which keeps notifications here, takes a time or a cron expression, without start, end and jitter"
        )
        raise InvalidInput(field="trigger_config", problem=rule)


def _ready(
    method: Callable[Concatenate[QStashNotifications, P], T],
) -> Callable[Concatenate[QStashNotifications, P], T]:
    """Raise every error in a form that callers may see, without the secrets that QStash may quote."""

    @functools.wraps(method)
    def guarded(self: QStashNotifications, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.problem is not None:
            raise refuse(API_ERROR, self.problem)
        try:
            return method(self, *args, **kwargs)
        except QStashError as error:
            raise refuse(API_ERROR, without_secrets(error.reason)) from None
        except DuetimeError as error:
            visible = for_callers(error)
            raise reword(visible, without_secrets(visible.message)) from None

    return guarded


class QStashNotifications(Outside):
    fires_here = False
    list_notes = (
        f"Notifications are kept at {PLACE} and are not in this list: `duetime notify list` and the tool "
        "list_scheduled_notifications show them.",
    )
    failure_notes = (
        f"Notifications are kept at {PLACE}: what it could not deliver is in its own DLQ, which its console shows.",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        account: Account,
        server: NtfyServer,
        channels: Callable[[str], Collection[str]] = lambda _owner: (),
        *,
        patience: float = UNHURRIED,
    ) -> None:
        """`channels` returns an owner's channels in the settings; only this machine knows their addresses."""
        self._scheduler, self._store, self._clock = scheduler, scheduler.store, scheduler.clock
        self._patience = patience
        self._account, self._server = account, server
        self._channels = channels
        self._http = Http(scheduler.clock, None, largest=LARGEST_ANSWER, resends=False)
        self._opening = threading.Lock()
        self._clients: dict[float, QStashClient] = {}
        self.problem = problem_with(account, server)
        """What is wrong with the settings, in a form that may be shown."""

    def refusal(self) -> DuetimeError:
        message = (
            f"notifications are kept at {PLACE}, so that they go out while this machine is off: make one with "
            "`duetime notify add`, or with the tools schedule_notification and schedule_cron_notification"
        )
        return refuse(KEPT_ELSEWHERE, message, "kind")

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

    @as_result
    @_ready
    def create(self, caller: Caller, new: NewSchedule) -> Notification:
        created = notification(schedule(self._make(self._client(), caller, new), self._clock.now()))
        return created._replace(warnings=self.warnings(created.topic, caller.owner))

    @as_result
    @_ready
    def send(self, caller: Caller, new: NewSchedule) -> Sent:
        try:
            remote = self._make(self._client(PATIENCE), caller, new)
        except DuetimeError as error:
            if "id" not in error.details:
                raise
            return Sent(error.details["id"], error.details["topic"], None, error.message)
        return Sent(remote.id, remote.topic, QSTASH)

    def _make(self, client: QStashClient, caller: Caller, new: NewSchedule) -> Remote:
        """Create a notification. If QStash fails, the error's details contain the id that it would have had.

        The record, with the id, is stored first: a request whose response was lost is repeated with the same id, so
        nothing is created twice.
        """
        check(caller.scopes, WRITE, f"kind:{new.kind}")
        known = self._made_before(caller, new)
        if known is not None and known.state in CONFIRMED:
            return known
        if new.name != name_of(new.payload):
            rule = f"notifications are kept at {PLACE}, which has no names for them; leave it out"
            raise InvalidInput(field="name", problem=rule)
        for name, value in new.policy.items():
            if value is not None and name not in _SUPPORTED_OPTIONS:  # what is ignored would surprise later
                rule = "QStash, which keeps notifications here, has no such rule; leave it out, or keep them in this"
                raise InvalidInput(field=name, problem=f'{rule} store with notifications.backend = "local"')
        [draft] = self._scheduler.drafts(caller, [new])
        _check_trigger(trigger_from_json(draft.definition.trigger))
        fresh = record_of(draft, fingerprint(new, self._scheduler.zone))
        self._check_topic(fresh.topic, fresh.owner)
        limit = self._scheduler.limits.schedules
        remote = known or self._find_failed_request(new, fresh) or self._store.keep_remote(fresh, limit)
        again = remote != fresh
        if remote.kind == RemoteKind.SCHEDULE:
            request = scheduling(remote, self._server, new.policy)
        else:  # a time such as `in 2 hours` counts from now, also if an earlier request is repeated
            not_before = None if fresh.at == fresh.created else fresh.at
            request = publishing(remote, not_before, self._server, new.policy, again=again)
        return self._ask_for(client, remote, request, again=again)

    def _made_before(self, caller: Caller, new: NewSchedule) -> Remote | None:
        """Find the notification by its key before anything is validated, because the requested time may have passed by
        now."""
        if new.idempotency_key is None:
            return None
        key = self._scheduler.drafter.key(new.idempotency_key, Instant(0))
        known = self._store.remote_by_key(caller.owner, key)
        if known is not None and not is_same_request(known.fingerprint, new, self._scheduler.zone):
            raise KeyReused
        return known

    def _find_failed_request(self, new: NewSchedule, fresh: Remote) -> Remote | None:
        """Find a recent failed request that the caller repeats without a key, because QStash may have executed it."""
        if new.idempotency_key is not None:
            return None
        since = Instant(fresh.created - WINDOW)
        return self._store.repeat_remote(fresh.owner, fresh.fingerprint, since, fresh.created)

    def _check_topic(self, topic: str, owner: str) -> None:
        if topic == INBOX or topic in self._channels(owner):
            raise InvalidInput(
                field="topic",
                problem=(
                    f"{topic} is a channel of this installation, which QStash cannot reach; choose a topic of the"
                    ' ntfy server, or keep notifications here with notifications.backend = "local"'
                ),
            )
        if (problem := problem_of_topic(self._server, topic, owner)) is not None:
            raise InvalidInput(field="topic", problem=f"{problem}")

    def _ask_for(self, client: QStashClient, remote: Remote, request: Request, *, again: bool) -> Remote:
        """Make the request and record its result. With `again`, an earlier request got no response."""
        try:
            name, at = client.ask(request)
        except QStashError as error:
            if again or error.unheard or error.repeated:
                self._keep(remote, RemoteState.UNSURE)
            else:
                self._store.forget_remote(remote.id)
            reason = f"{error.reason}. {_PERHAPS}" if error.unheard else error.reason
            raise refuse(API_ERROR, reason, details={"id": remote.id, "topic": remote.topic}) from None
        return self._keep(remote._replace(remote=name, at=at or remote.at), RemoteState.THERE)

    def _keep(self, remote: Remote, state: RemoteState) -> Remote:
        updated = remote._replace(state=state, updated=self._clock.now())
        self._store.update_remote(updated)
        return updated

    @as_result
    def scheduled(self, caller: Caller, topic: str | None = None) -> list[Notification]:
        return in_order(map(notification, self.schedules(caller, topic)))

    @_ready
    def schedules(self, caller: Caller, topic: str | None = None) -> Sequence[Schedule]:
        """Return what QStash has of the caller's records."""
        now = self._clock.now()
        own = self._store.remotes(caller.owner, now, topic) if caller.sees(caller.owner, KIND) else []
        recurring = self._recurring([each for each in own if each.kind == RemoteKind.SCHEDULE], now)
        return [*recurring, *self._messages([each for each in own if each.kind == RemoteKind.MESSAGE], now)]

    def _recurring(self, own: list[Remote], now: Instant) -> Iterator[Schedule]:
        listed = self._client().ask(lambda sdk: sdk.schedule.list()) if own else []
        there = {each.schedule_id: each for each in listed}
        for each in own:
            name = each.remote or each.id
            if each.state not in CONFIRMED:
                self._reconcile(each, name if name in there else None, now)
            if name in there:
                yield schedule(each, now, there[name])

    def _messages(self, own: list[Remote], now: Instant) -> Iterator[Schedule]:
        unconfirmed = [each for each in own if each.state not in CONFIRMED]
        for each in own:
            if each.state in CONFIRMED:
                yield schedule(each, now)
        for each in unconfirmed[:FEW]:
            name = self._client().ask(partial(logged, each))
            self._reconcile(each, name, now)
            if name is not None:
                yield schedule(each, now)

    def _reconcile(self, remote: Remote, name: str | None, now: Instant) -> None:
        """Confirm an unconfirmed record if QStash has an object of this name; otherwise delete it after the window."""
        if name is not None:
            self._keep(remote._replace(remote=name), RemoteState.THERE)
        elif remote.updated < now - WINDOW:
            self._store.forget_remote(remote.id)

    def why_missing(self, caller: Caller, id: str) -> DuetimeError | None:
        remote = self._own(caller, id)
        if remote is None:
            return None
        possible = ("pause", "resume", "delete") if remote.kind == RemoteKind.SCHEDULE else ("delete",)
        can = listed(["list", *possible])
        return refuse(KEPT_ELSEWHERE, f"{id} is kept at {PLACE}, and so is its history; {can} work there")

    def changes(self, caller: Caller, topic: str) -> object:
        """Use the local record, which also says when it fires, so that QStash is not polled several times a second."""
        now = self._clock.now()
        return [
            (id, state, updated, at or (None if state == RemoteState.PAUSED else following(trigger, now)))
            for id, state, updated, at, trigger in self._store.remote_marks(caller.owner, topic, now)
        ]

    def warnings(self, topic: str, owner: str = LOCAL, but: str = "") -> list[ScheduleWarning]:
        address = "" if owner == LOCAL else address_of(self._server, topic, owner)
        return [warning("subscribe", address=address, topic=topic)] if address else []

    @_ready
    def check(self) -> int:
        """Return how many schedules the account has, whoever created them."""
        return len(self._client().ask(lambda sdk: sdk.schedule.list()))

    @_ready
    def change(self, caller: Caller, action: str, id: str, *, is_limited: bool = False) -> Schedule:
        """Pause or resume a recurring notification, or delete any that has not been sent; cancelling one deletes it."""
        is_final = action in ("delete", "cancel")
        check(caller.scopes, DELETE if is_final else WRITE)
        remote = self._own(caller, id)
        if remote is None:
            raise NotFound
        if remote.kind == RemoteKind.MESSAGE and not is_final:
            reason = f"it cannot be {action.rstrip('e')}ed; delete it, and add another for later"
            raise refuse("not_possible", f"{id} goes out once, at {PLACE}, so {reason}")
        if is_limited:
            reason = "where a pause has no end and no note; pause it without until and note, and resume it later"
            raise refuse("not_possible", f"{id} is kept at {PLACE}, {reason}")
        if remote.kind == RemoteKind.MESSAGE and remote.remote is None:
            remote = remote._replace(remote=self._client().ask(partial(logged, remote)))
            if remote.remote is None:
                raise NotFound
        try:
            self._client(UNHURRIED / 2).ask(changing(remote, "delete" if is_final else action))
        except QStashError as error:
            if not error.missing:
                raise
            if not is_final or not error.repeated:  # otherwise, an attempt whose response was lost has deleted it
                raise NotFound from None
        if is_final:
            self._store.forget_remote(remote.id)
            definition, progress = schedule(remote, self._clock.now())
            return Schedule(definition, progress._replace(state=ScheduleState.CANCELLED, next=None))
        remote = self._keep(remote._replace(remote=remote.remote or remote.id), _STATES[action])
        return schedule(remote, self._clock.now())

    def _own(self, caller: Caller, schedule_id: str) -> Remote | None:
        """Return the record; None if it belongs to another owner, exactly as if it did not exist."""
        remote = self._store.remote(schedule_id) if could_be_an_id(schedule_id) else None
        return remote if remote is not None and caller.sees(remote.owner, KIND) else None
