"""Checks of `duetime doctor` for notifications: whether each destination answers. Nothing is sent to anybody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus

from duetime.engine.clock import Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.store import ScheduleQuery
from duetime.engine.urls import BadAddress, read_url
from duetime.kinds.notifications.build import alerts_warning, delivery_of, notes_for_others, place_of_alerts
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.qstash.service import QStashNotifications
from duetime.net.client import CallFailed, Http, HttpCall
from duetime.service.checks import Check, Checks, Installation
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from duetime.settings.sections import ChannelSettings
from duetime.terminal.context import program
from duetime.terminal.output import clean, plural

SUBJECT = "delivery"
_PATIENCE = 5.0
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def _destinations(settings: Settings, clock: Clock) -> Iterator[Check]:
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
    status = _status(HttpCall("GET", f"{origin}{path}", headers, patience=_PATIENCE), http)
    if isinstance(status, str):
        advice = "check notifications.server and the network"
        return Check("fail", SUBJECT, f"the ntfy server {clean(origin)} does not answer: {clean(status)}; {advice}")
    if status in _REFUSED:
        return Check("fail", SUBJECT, f"the ntfy server {clean(origin)} refuses notifications.token; renew it")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Check("warn", SUBJECT, f"the ntfy server {clean(origin)} answers with the status {status}")
    return Check("ok", SUBJECT, f"topics go to the ntfy server {clean(origin)}, which answers")


def _channel(name: str, channel: ChannelSettings, http: Http) -> Check:
    """Return whether the host of a channel answers, whatever the answer is. The address of a webhook is secret, so only
    its host is named."""
    who = f"the channel {clean(name)}"
    try:
        target = read_url(channel.url)
    except BadAddress:
        test = program("notify", "send", "Test", "--topic", name)
        return Check("info", SUBJECT, f"{who} was not contacted, because that would send a message: {test}")
    status = _status(HttpCall("GET", f"{target.origin}/", {}, patience=_PATIENCE), http)
    if isinstance(status, str):
        return Check("fail", SUBJECT, f"{who} does not answer: {clean(status)}; check its url and the network")
    return Check("ok", SUBJECT, f"{who}: {clean(target.origin)} answers")


def _status(call: HttpCall, http: Http) -> int | str:
    try:
        return http.send(call).status
    except CallFailed as error:
        return error.reason


def _backend(installation: Installation) -> Iterator[Check]:
    """Check the service that keeps the notifications, and where those of other owners go."""
    scheduler, kind = installation.services.scheduler, installation.services.kind(NotificationKind)
    if isinstance(kind.service, QStashNotifications):
        try:
            number = kind.service.check()
        except DuetimeError as error:
            yield Check("fail", "qstash", clean(error.message))
        else:
            text = f"it keeps the notifications, and answers; {plural(number, 'schedule')} there"
            yield Check("ok", "qstash", text)
        query = ScheduleQuery(kind="notification", status="living", limit=1)
        here = scheduler.search(OPERATOR, query).total
        if here:
            message = f"kept and fired here, from before: {plural(here, 'notification')}, which the tools do not show"
            yield Check("warn", "qstash", f'{message}; to see and delete them, set notifications.backend = "local"')
    for note in notes_for_others(scheduler, installation.settings, kind.delivery, addresses=True):
        yield Check("warn", SUBJECT, clean(note))


CHECKS = Checks(_destinations, _backend)
