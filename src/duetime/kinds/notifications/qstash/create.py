"""Creation of notifications at QStash. The local record, with the id, is stored first: a request whose response was
lost is repeated with the same id, so nothing is created twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.queries import could_be_an_id
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import KEY_REUSED, Scheduler
from duetime.engine.store_interfaces import Remote, RemoteKind, RemoteState
from duetime.engine.validation import NewSchedule, fingerprint
from duetime.kinds.notifications.channels.ntfy import NtfyServer, problem_of_topic, publish_call
from duetime.kinds.notifications.delivery import Parcel
from duetime.kinds.notifications.qstash.client import Refused, Unheard
from duetime.kinds.notifications.qstash.records import cron_of, fields_of, record_of
from duetime.settings.sections import INBOX

if TYPE_CHECKING:
    from qstash import QStash

    from duetime.kinds.notifications.qstash.client import Line


# Requests to QStash through its SDK. Each can be repeated safely.


class Taken(NamedTuple):
    name: str
    """QStash's own id."""
    at: Instant | None
    """When a one-off is sent; None means at once."""


def publishing(
    remote: Remote, not_before: Instant | None, server: NtfyServer, policy: Mapping[str, Any], *, again: bool
) -> Callable[[QStash], Taken]:
    """Return a request to publish a message. `again`: an earlier one got no response, and may be older than the minutes
    for which QStash remembers deduplication ids, so the logs are searched first."""
    url, shared = _message(remote, server, policy, repeat_id=remote.id)
    shared["label"] = remote.id  # to find it in the logs
    seconds = None if not_before is None else -(-not_before // SECOND)  # never early

    def question(sdk: QStash) -> Taken:
        if again and (name := _logged(sdk, remote)) is not None:
            return Taken(name, remote.at)
        taken: Any = sdk.message.publish(url=url, deduplication_id=remote.id, not_before=seconds, **shared)
        return Taken(_checked(taken.message_id), remote.at if taken.deduplicated else not_before)

    return question


def scheduling(remote: Remote, server: NtfyServer, policy: Mapping[str, Any]) -> Callable[[QStash], Taken]:
    # A phone shows only the latest of several messages with one id, so each occurrence is a new message.
    url, shared = _message(remote, server, policy, repeat_id="")
    shared["label"] = fields_of(remote).get("label")
    cron = cron_of(remote)

    def question(sdk: QStash) -> Taken:
        name = sdk.schedule.create(destination=url, cron=cron, schedule_id=remote.id, **shared)
        return Taken(_checked(name), None)

    return question


def _message(
    remote: Remote, server: NtfyServer, policy: Mapping[str, Any], repeat_id: str
) -> tuple[str, dict[str, Any]]:
    """Return the URL, and the arguments that publishing and scheduling have in common."""
    call, _ = publish_call(server, Parcel(repeat_id, remote.topic, fields_of(remote), 0.0, remote.owner))
    forwarded = {**call.headers}
    attempts, timeout = policy.get("max_attempts"), policy.get("timeout")
    shared = {
        "body": call.body,
        "content_type": forwarded.pop("Content-Type"),
        "headers": forwarded,
        "redact": {"header": ["Authorization"]} if server.token else None,
        # Only what was requested: QStash has its own defaults, which depend on the account's plan.
        "retries": None if attempts is None else attempts - 1,
        "timeout": None if timeout is None else -(-timeout // SECOND),
    }
    return call.url, shared


def finding(remote: Remote) -> Callable[[QStash], str | None]:
    """Return a request for QStash's id of a message whose response was lost; it gives None if QStash has no such."""
    return lambda sdk: _logged(sdk, remote)


def _logged(sdk: QStash, remote: Remote) -> str | None:
    # The SDK's own method for it prints the response, and standard output may carry a protocol.
    answer = sdk.http.request(path="/v2/events", method="GET", params={"label": remote.id, "count": "100"})
    names = [event["messageId"] for event in answer["events"] if event.get("label") == remote.id]
    return _checked(names[0]) if names else None


def pausing(remote: Remote) -> Callable[[QStash], None]:
    return _changing(remote, lambda sdk, name: sdk.schedule.pause(name))


def resuming(remote: Remote) -> Callable[[QStash], None]:
    return _changing(remote, lambda sdk, name: sdk.schedule.resume(name))


def deleting(remote: Remote) -> Callable[[QStash], None]:
    if remote.kind == RemoteKind.MESSAGE:
        return _changing(remote, lambda sdk, name: sdk.message.cancel(name))
    return _changing(remote, lambda sdk, name: sdk.schedule.delete(name))


def _changing(remote: Remote, change: Callable[[QStash, str], None]) -> Callable[[QStash], None]:
    name = _in_path(remote)

    def question(sdk: QStash) -> None:
        """Look it up first: a change alone may succeed on what does not exist."""
        if remote.kind == RemoteKind.MESSAGE:
            sdk.message.get(name)
        else:
            sdk.schedule.get(name)
        change(sdk, name)

    return question


def _in_path(remote: Remote) -> str:
    """Quote the id, because the SDK puts it into the URL as it is; `..` would lead to another path."""
    return quote(remote.remote or remote.id, safe="").replace(".", "%2E")


def _checked(name: object) -> str:
    if not isinstance(name, str) or not name or not could_be_an_id(name):
        raise ValueError("QStash names things by texts")
    return name


WINDOW = 10 * MINUTE
"""How long QStash remembers a deduplication id: a request that is repeated later is a new one."""
CONFIRMED = frozenset({RemoteState.THERE, RemoteState.PAUSED})
_KNOWN_HERE_ALONE = ("max_runs", "backoff", "at_most_once")
"""Policies that QStash does not support. Its own handling of downtime and overlaps is harmless."""
_PERHAPS = "QStash may have taken it all the same; the same request made again makes no second one"


class Maker:
    def __init__(self, scheduler: Scheduler, server: NtfyServer, channels: Callable[[str], Collection[str]]) -> None:
        """`channels` returns an owner's channels in the settings; only this machine knows their addresses."""
        self._scheduler, self._store = scheduler, scheduler.store
        self._server = server
        self._channels = channels

    def make(self, line: Line, caller: Caller, asked: NewSchedule) -> Result[Remote]:
        """Create a notification. If QStash fails, the error's details hold the id that it would have had."""
        known = self._made_before(caller, asked)
        if isinstance(known, Err) or (known is not None and known.value.state in CONFIRMED):
            return known
        _check_rules(asked.policy)
        drafts = self._scheduler.drafts(caller, [asked])
        if isinstance(drafts, Err):
            return drafts
        fresh = record_of(drafts.value[0])
        self._check_topic(fresh.topic, fresh.owner)
        limit = self._scheduler.limits.schedules
        kept = known or self._asked_in_vain(asked, fresh) or self._store.keep_remote(fresh, limit)
        if isinstance(kept, Err):
            return kept
        again = kept.value != fresh
        return self._ask_for(line, kept.value, self._request(kept.value, fresh, asked, again), again=again)

    def _made_before(self, caller: Caller, asked: NewSchedule) -> Result[Remote] | None:
        """Find it by its key before anything is validated, because the requested time may be in the past by now."""
        if asked.idempotency_key is None:
            return None
        key = self._scheduler.drafter.key(asked.idempotency_key, Instant(0))
        known = self._store.remote_by_key(caller.owner, key)
        if known is None:
            return None
        return Ok(known) if known.fingerprint == fingerprint(asked) else KEY_REUSED

    def _asked_in_vain(self, asked: NewSchedule, fresh: Remote) -> Ok[Remote] | None:
        """Find a recent failed request that the caller repeats without a key; QStash may have carried it out."""
        if asked.idempotency_key is not None:
            return None
        since = Instant(fresh.created - WINDOW)
        known = self._store.repeat_remote(fresh.owner, fresh.fingerprint, since, fresh.created)
        return None if known is None else Ok(known)

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

    def _request(self, remote: Remote, fresh: Remote, asked: NewSchedule, again: bool) -> Callable[[QStash], Taken]:
        """Return the request. A time such as `in 2 hours` counts from now, also if an earlier request is repeated."""
        if remote.kind == RemoteKind.SCHEDULE:
            return scheduling(remote, self._server, asked.policy)
        not_before = None if fresh.at == fresh.created else fresh.at
        return publishing(remote, not_before, self._server, asked.policy, again=again)

    def _ask_for(
        self, line: Line, remote: Remote, request: Callable[[QStash], Taken], *, again: bool
    ) -> Result[Remote]:
        """Make the request and record its result. `again`: an earlier request for it got no response."""
        try:
            name, at = line.ask(request)
        except Refused as refused:
            if again or refused.repeated:
                self.keep(remote, RemoteState.UNSURE)
            else:
                self._store.forget_remote(remote.id)
            return Err("api_error", refused.reason, {"id": remote.id})
        except Unheard as unheard:
            self.keep(remote, RemoteState.UNSURE)
            return Err("api_error", f"{unheard.reason}. {_PERHAPS}", {"id": remote.id})
        return Ok(self.keep(remote._replace(remote=name, at=at or remote.at), RemoteState.THERE))

    def keep(self, remote: Remote, state: RemoteState) -> Remote:
        kept = remote._replace(state=state, updated=self._scheduler.clock.now())
        self._store.update_remote(kept)
        return kept


def _check_rules(policy: Mapping[str, Any]) -> None:
    """Refuse unsupported policies instead of ignoring them: it would be sent more often than it should."""
    for name in _KNOWN_HERE_ALONE:
        if name in policy:
            raise InvalidInput(
                field=name,
                problem=(
                    "QStash, which keeps notifications here, has no such rule; leave it out, or keep them in this"
                    ' store with notifications.backend = "local"'
                ),
            )
