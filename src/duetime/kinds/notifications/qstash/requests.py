"""Requests to QStash through its SDK. Each can be repeated safely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from duetime.engine.clock import SECOND, Instant
from duetime.engine.queries import could_be_an_id
from duetime.engine.store_interfaces import Remote, RemoteKind
from duetime.kinds.notifications.channels.ntfy import NtfyServer, publish_call
from duetime.kinds.notifications.delivery import Parcel
from duetime.kinds.notifications.qstash.records import cron_of, fields_of

if TYPE_CHECKING:
    from qstash import QStash


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
