"""Work that cannot be interrupted: it is left behind when its time is up, and nobody waits for a helper to be free."""

from __future__ import annotations

import threading

import pytest

from duetime.engine.clock import DAY, SECOND, SystemClock
from duetime.engine.outcome import Returned
from duetime.kinds.notifications.channels import apprise
from duetime.kinds.notifications.channels.apprise import AppriseChannel
from duetime.kinds.notifications.delivery import OutgoingMessage
from duetime.net.client import CallFailed
from duetime.net.helper_threads import Abandoned, Helpers, NoneFree
from duetime.net.host_limits import Hosts, Sign
from duetime.net.outcomes import outcome_of_failure, sign_of_failure

OUTGOING = OutgoingMessage("msg_1", "phone", {"message": "hi"}, patience=10.0)


def test_what_was_left_behind_keeps_its_helper_and_nobody_waits_for_it() -> None:
    helpers, going_on, clock = Helpers(1), threading.Event(), SystemClock()
    with pytest.raises(Abandoned):
        helpers.run(lambda: going_on.wait(30), within=0.01)
    begun = clock.monotonic()
    with pytest.raises(NoneFree):
        helpers.run(lambda: True, within=30)
    assert clock.monotonic() - begun < 20, "what it was given is for the work, not for waiting"
    going_on.set()


def test_a_channel_that_found_no_helper_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often: nothing was learnt of it, so it is not left alone either."""
    monkeypatch.setattr(apprise, "_helpers", Helpers(0))
    channel = AppriseChannel("phone", "json://127.0.0.1:9/", Hosts(SystemClock(), 4))
    outcomes = [channel.deliver(OUTGOING) for _ in range(7)]
    reason = "channel phone was not asked, because too many channels hang; check those that fail"
    assert [isinstance(each, Returned) and each.reason for each in outcomes] == [reason] * 7


def test_a_thread_that_cannot_be_started_uses_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = Helpers(1)
    with monkeypatch.context() as short_of_memory:
        short_of_memory.setattr(threading.Thread, "start", no_thread)
        for _ in range(5):
            with pytest.raises(NoneFree):
                helpers.run(lambda: True, within=30)
    assert helpers.run(lambda: "free", within=30) == "free"


def no_thread(_self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_what_one_owner_leaves_behind_leaves_helpers_to_the_others() -> None:
    helpers, going_on = Helpers(4), threading.Event()

    def left_behind(owner: str) -> int:
        number = 0
        while True:
            try:
                helpers.run(lambda: going_on.wait(30), 0.0, owner)
            except Abandoned:
                number += 1
            except NoneFree:
                return number

    assert [left_behind(owner) for owner in ("ada", "bob", "cleo", "dan")] == [4, 4, 4, 3]
    assert helpers.run(lambda: "free", 30, "eve") == "free"
    going_on.set()


def test_a_request_that_found_no_lookup_is_given_back_and_its_host_is_not_blamed() -> None:
    failed = CallFailed("hooks.example.org was not looked up", untried=True)
    outcome = outcome_of_failure(failed, after=60 * SECOND)
    assert isinstance(outcome, Returned) and outcome.patience == DAY
    assert (outcome.reason, sign_of_failure(failed)) == (failed.reason, Sign.NONE)
    assert SECOND <= outcome.after <= 5 * SECOND, "soon, whatever the delay of a retry is"
