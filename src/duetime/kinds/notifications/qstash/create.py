"""Creation of notifications at QStash, and their local records. The record, with the id, is stored first: a request
whose response was lost is repeated with the same id, so nothing is created twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.policy.rows import Draft
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import KEY_REUSED, Scheduler
from duetime.engine.store_interfaces import Remote, RemoteKind, RemoteState
from duetime.engine.triggers import trigger_from_json
from duetime.engine.validation import NewSchedule, fingerprint
from duetime.kinds.notifications.channels.ntfy import NtfyServer, problem_of_topic
from duetime.kinds.notifications.qstash.client import (
    QStashClient,
    QStashError,
    Request,
    publishing,
    scheduling,
)
from duetime.kinds.notifications.service import Notification, readable_trigger
from duetime.settings.sections import INBOX

if TYPE_CHECKING:
    from qstash.schedule import Schedule

_LATEST = 253_402_214_400_000
"""The last day of the year 9999 in milliseconds: later times cannot be represented."""


def record_of(draft: Draft) -> Remote:
    """Return the record that is stored before QStash is called."""
    definition, first = draft
    once = trigger_from_json(definition.trigger).type == "once"
    return Remote(
        id=definition.public_id,
        owner=definition.owner,
        kind=RemoteKind.MESSAGE if once else RemoteKind.SCHEDULE,
        topic=definition.subject,
        trigger=definition.trigger,
        payload=definition.payload,
        at=first if once else None,
        remote=None,
        state=RemoteState.ASKED,
        key=definition.key,
        fingerprint=definition.fingerprint,
        created=definition.created,
        updated=definition.created,
    )


def notification(remote: Remote, now: Instant, there: Schedule | None = None) -> Notification:
    """Return the notification. QStash's own data is preferred if there is any, because it knows when it fires."""
    found = Notification(remote.id, remote.topic, remote.trigger, remote.payload, remote.at or remote.created)
    if remote.kind == RemoteKind.MESSAGE:
        return found
    paused = remote.state == RemoteState.PAUSED if there is None else there.paused is True
    told = None if there is None else _instant(there.next_schedule_time)
    return found._replace(
        next=None if paused else told or following(remote.trigger, now),
        paused=paused,
        last=None if there is None else _instant(there.last_schedule_time),
    )


def following(trigger: str, now: Instant) -> Instant | None:
    read = readable_trigger(trigger)
    return None if read is None else read.next_after(now)


def _instant(milliseconds: object) -> Instant | None:
    if type(milliseconds) is not int or not 0 < milliseconds < _LATEST:
        return None
    return Instant(milliseconds * 1000)


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

    def make(self, client: QStashClient, caller: Caller, asked: NewSchedule) -> Result[Remote]:
        """Create a notification. If QStash fails, the error's details hold the id that it would have had."""
        known = self._made_before(caller, asked)
        if isinstance(known, Err) or (known is not None and known.value.state in CONFIRMED):
            return known
        for name in _KNOWN_HERE_ALONE:
            if name in asked.policy:  # refused, since it would be sent more often than it should if this were ignored
                rule = "QStash, which keeps notifications here, has no such rule; leave it out, or keep them in this"
                raise InvalidInput(field=name, problem=f'{rule} store with notifications.backend = "local"')
        drafts = self._scheduler.drafts(caller, [asked])
        if isinstance(drafts, Err):
            return drafts
        fresh = record_of(drafts.value[0])
        self._check_topic(fresh.topic, fresh.owner)
        limit = self._scheduler.limits.schedules
        kept = known or self._asked_in_vain(asked, fresh) or self._store.keep_remote(fresh, limit)
        if isinstance(kept, Err):
            return kept
        remote, again = kept.value, kept.value != fresh
        if remote.kind == RemoteKind.SCHEDULE:
            request = scheduling(remote, self._server, asked.policy)
        else:  # a time such as `in 2 hours` counts from now, also if an earlier request is repeated
            not_before = None if fresh.at == fresh.created else fresh.at
            request = publishing(remote, not_before, self._server, asked.policy, again=again)
        return self._ask_for(client, remote, request, again=again)

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

    def _ask_for(self, client: QStashClient, remote: Remote, request: Request, *, again: bool) -> Result[Remote]:
        """Make the request and record its result. `again`: an earlier request for it got no response."""
        try:
            name, at = client.ask(request)
        except QStashError as error:
            if again or error.unheard or error.repeated:
                self.keep(remote, RemoteState.UNSURE)
            else:
                self._store.forget_remote(remote.id)
            return Err("api_error", f"{error.reason}. {_PERHAPS}" if error.unheard else error.reason, {"id": remote.id})
        return Ok(self.keep(remote._replace(remote=name, at=at or remote.at), RemoteState.THERE))

    def keep(self, remote: Remote, state: RemoteState) -> Remote:
        kept = remote._replace(state=state, updated=self._scheduler.clock.now())
        self._store.update_remote(kept)
        return kept
