"""Creation of the courier that the settings describe, and notes about the notifications of other owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from duetime.engine.clock import Clock
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.kinds.notifications.delivery import NOTIFICATION, Courier, Inbox
from duetime.kinds.prompts.build import channel_names
from duetime.settings import Settings


def courier_of(settings: Settings, clock: Clock) -> Courier:
    """Return the courier. Where nothing is set up, nothing has to be imported."""
    given = settings.notifications
    if not given.server and not settings.channels:
        return Inbox()
    from duetime.kinds.notifications.channels.ntfy import NtfyServer
    from duetime.kinds.notifications.channels.registry import ChannelSpec
    from duetime.kinds.notifications.router import RoutingCourier

    server = NtfyServer(given.server, given.prefix, given.token) if given.server else None
    channels = {
        name: ChannelSpec(each.url, each.method, each.headers, each.body, each.owners)
        for name, each in settings.channels.items()
    }
    return RoutingCourier(clock, settings.threads, server, channels, given.alerts)


# Notifications of owners other than `local`, who have separate topics and cannot use every channel.

LOOKED_AT = 1000
"""Notifications that are examined: enough to notice other owners, and still fast."""
_SHOWN = 5
_OPERATOR = Caller(LOCAL, operator=True)


class Other(NamedTuple):
    """A topic on which another owner has something scheduled."""

    owner: str
    topic: str


def others(scheduler: Scheduler) -> list[Other]:
    """Return the owners other than `local`, and their topics, of notifications that may still fire."""
    query = ScheduleQuery(kind=NOTIFICATION, status="living", limit=LOOKED_AT, newest_first=True, count_to=0)
    found = scheduler.search(_OPERATOR, query)
    if isinstance(found, Err):
        return []
    seen = {Other(each.definition.owner, each.definition.subject) for each in found.value.items}
    return sorted(each for each in seen if each.owner != LOCAL)


def notes_for_others(scheduler: Scheduler, settings: Settings, courier: Courier, *, addresses: bool) -> Iterator[str]:
    """Yield a sentence for each thing that other owners have to be told. Logs leave out `addresses`, because whoever
    knows an address of a public server can read what is sent there."""
    if not settings.channels and not settings.notifications.server:
        return
    found = others(scheduler)
    own = {each: address for each in found if (address := courier.address_of(each.topic, each.owner))}
    if own:
        yield (
            "owners other than local have topics of their own on the ntfy server, to which their phones have to "
            f"subscribe: {_listed(own) if addresses else '`duetime doctor` shows them'}"
        )
    closed = [each for each in found if each.topic in settings.channels.keys() - channel_names(settings, each.owner)]
    if closed:
        named = ", ".join(f"{each.topic} ({each.owner})" for each in closed[:_SHOWN])
        yield (
            f"notifications of other owners name channels that are not open to them: {named}; add these owners to "
            "`owners` of the channel, or have them choose another topic"
        )


def _listed(own: Mapping[Other, str]) -> str:
    shown = [f"{address} ({each.owner})" for each, address in list(own.items())[:_SHOWN]]
    return ", ".join(shown) + ("" if len(own) <= _SHOWN else f" and {len(own) - _SHOWN} more")
