"""Delivery by a process whose settings are not the server's: only what both would deliver in the same way."""

from __future__ import annotations

from duetime.engine.clock import MINUTE
from duetime.engine.model import LOCAL
from duetime.engine.outcome import Outcome, Returned
from duetime.kinds.notifications.delivery import Delivery, OutgoingMessage
from duetime.kinds.notifications.destinations import Destinations
from duetime.settings.sections import INBOX

ELSEWHERE_WAIT = 1 * MINUTE
"""Delay before a message is tried again whose channel this process does not have: a server has it."""


class ServerDelivery(Delivery):
    def __init__(self, own: Delivery, places: Destinations) -> None:
        """`own` delivers by the settings of this process; `places` is what the server published."""
        self._own, self._places = own, places

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        """Deliver a message, or give it back: in the inbox of this process it would reach nobody's phone."""
        channel = self.channel_of(outgoing.topic, outgoing.owner)
        if channel == INBOX:
            return super().deliver(outgoing)
        if self._own.channel_of(outgoing.topic, outgoing.owner) == channel:
            return self._own.deliver(outgoing)
        reason = f"the channel {channel} is not in the settings of this process; it waits until the server delivers it"
        return Returned(reason, ELSEWHERE_WAIT)

    def channel_of(self, topic: str, owner: str = LOCAL) -> str:
        return self._places.channel_of(topic, owner)

    def address_of(self, topic: str, owner: str = LOCAL) -> str:
        return self._own.address_of(topic, owner)

    def problems(self) -> list[str]:
        return self._own.problems()

    def close(self) -> None:
        self._own.close()
