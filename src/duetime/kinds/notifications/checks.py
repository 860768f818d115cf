"""Checks of `duetime doctor` for notifications: whether each destination answers. Nothing is sent to anybody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus

from duetime.engine.clock import Clock
from duetime.kinds.notifications.build import alerts_warning, delivery_of, place_of_alerts
from duetime.net.client import Call, CallFailed, Http
from duetime.net.urls import BadAddress, read_url
from duetime.settings import Settings
from duetime.settings.sections import ChannelSettings
from duetime.terminal.context import Check, program
from duetime.terminal.output import clean

SUBJECT = "delivery"
_PATIENCE = 5.0
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def delivery_checks(settings: Settings, clock: Clock) -> Iterator[Check]:
    with closing(delivery_of(settings, clock)) as delivery:
        problems = delivery.problems()
    for problem in problems:
        yield Check("fail", SUBJECT, clean(problem))
    if not problems:
        with closing(Http(clock, None)) as http:
            yield from _places(settings, http)
    if warning := alerts_warning(settings):
        yield Check("warn", "alerts", clean(warning))
    elif settings.channels:
        yield Check("ok", "alerts", f"alerts go to {clean(place_of_alerts(settings))}")


def _places(settings: Settings, http: Http) -> Iterator[Check]:
    server, token = settings.notifications.server, settings.notifications.token
    for name, channel in sorted(settings.channels.items()):
        yield _channel(name, channel, http)
    if server:
        yield _ntfy(read_url(server).origin, token, http)
    elif settings.channels:
        yield Check("ok", SUBJECT, "other topics go to the built-in inbox")
    else:
        text = "notifications go to the built-in inbox; set notifications.server or a channel to reach a phone"
        yield Check("ok", SUBJECT, text)


def _ntfy(origin: str, token: str, http: Http) -> Check:
    """Query the state of an ntfy server or, with a token, the account of the token."""
    path, headers = ("/v1/account", {"Authorization": f"Bearer {token}"}) if token else ("/v1/health", {})
    status = _status(Call("GET", f"{origin}{path}", headers, patience=_PATIENCE), http)
    if isinstance(status, str):
        advice = "check notifications.server and the network"
        return Check("fail", SUBJECT, f"the ntfy server {clean(origin)} does not answer: {clean(status)}; {advice}")
    if status in _REFUSED:
        return Check("fail", SUBJECT, f"the ntfy server {clean(origin)} refuses notifications.token; renew it")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Check("warn", SUBJECT, f"the ntfy server {clean(origin)} answers with the status {status}")
    return Check("ok", SUBJECT, f"topics go to the ntfy server {clean(origin)}, which answers")


def _channel(name: str, channel: ChannelSettings, http: Http) -> Check:
    """Check a channel. The address of a webhook is secret, so only its host is named."""
    who = f"the channel {clean(name)}"
    try:
        target = read_url(channel.url)
    except BadAddress:
        test = program("notify", "send", "Test", "--topic", name)
        return Check("info", SUBJECT, f"{who} was not contacted, because that would send a message: {test}")
    return reached(who, target.origin, http, SUBJECT)


def reached(who: str, origin: str, http: Http, subject: str) -> Check:
    """Return whether the host of an address answers, whatever the answer is."""
    status = _status(Call("GET", f"{origin}/", {}, patience=_PATIENCE), http)
    if isinstance(status, str):
        return Check("fail", subject, f"{who} does not answer: {clean(status)}; check its url and the network")
    return Check("ok", subject, f"{who}: {clean(origin)} answers")


def _status(call: Call, http: Http) -> int | str:
    try:
        return http.send(call).status
    except CallFailed as error:
        return error.reason
