"""Work that cannot be interrupted: it is left behind when its time is up, and nobody waits for a helper to be free."""

from __future__ import annotations

import threading

import pytest

from duetime.engine.clock import SystemClock
from duetime.engine.outcome import Retry
from duetime.kinds.notifications.channels import apprise
from duetime.kinds.notifications.channels.apprise import AppriseChannel
from duetime.kinds.notifications.delivery import OutgoingMessage
from duetime.net.host_limits import Hosts
from duetime.net.ssrf_guard import Abandoned, Helpers, NoneFree

OUTGOING = OutgoingMessage("msg_1", "phone", {"message": "hi"}, patience=10.0)


def test_what_was_left_behind_keeps_its_helper_and_nobody_waits_for_it() -> None:
    helpers, going_on, clock = Helpers(1), threading.Event(), SystemClock()
    with pytest.raises(Abandoned):
        helpers.run(lambda: going_on.wait(30), within=0.01)
    begun = clock.monotonic()
    with pytest.raises(NoneFree):
        helpers.run(lambda: True, within=30)
    assert clock.monotonic() - begun < 5, "what it was given is for the work, not for waiting"
    going_on.set()


def test_a_channel_that_found_no_helper_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often: nothing was learnt of it, so it is not left alone either."""
    monkeypatch.setattr(apprise, "_helpers", Helpers(0))
    channel = AppriseChannel("phone", "json://127.0.0.1:9/", Hosts(SystemClock(), 4))
    outcomes = [channel.deliver(OUTGOING) for _ in range(7)]
    reason = "channel phone was not asked, because too many channels hang; check those that fail"
    assert outcomes == [Retry(reason)] * 7
