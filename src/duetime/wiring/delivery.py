"""What brings notifications on their way, as the settings say."""

from __future__ import annotations

from duetime.core.clock import Clock
from duetime.core.delivering import Courier, Inbox
from duetime.settings import Settings


def courier_of(settings: Settings, clock: Clock) -> Courier:
    """Where nothing is set up, nothing has to be imported."""
    given = settings.notifications
    if not given.server and not settings.channels:
        return Inbox()
    from duetime.delivery.channels.named import ChannelSpec
    from duetime.delivery.courier import RoutingCourier
    from duetime.delivery.ntfy import NtfyServer

    server = NtfyServer(given.server, given.prefix, given.token) if given.server else None
    channels = {
        name: ChannelSpec(each.url, each.method, each.headers, each.body, each.owners)
        for name, each in settings.channels.items()
    }
    return RoutingCourier(clock, settings.threads, server, channels, given.alerts)
