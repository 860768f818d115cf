"""A channel that makes one plain HTTP request to an address that the operator set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from urllib.parse import quote_plus

from duetime.engine.outcome import Outcome
from duetime.kinds.notifications.delivery import OutgoingMessage
from duetime.net.calls import checked
from duetime.net.client import CallFailed, Http, HttpCall
from duetime.net.host_limits import Hosts
from duetime.net.outcomes import IDEMPOTENCY_KEY, post
from duetime.settings.sections import ChannelSettings

# Templates of bodies. Texts from agents are escaped for the format, so that each stays a single value.

_HOLE = re.compile(r"\{(message|title|topic|id)\}")


def content_type_of(template: str) -> str:
    """Guess the content type if the operator set none. A text may begin with a placeholder, JSON cannot."""
    begins = template.lstrip()
    is_json = not begins or (begins[0] in "{[" and not _HOLE.match(begins))
    return "application/json" if is_json else "text/plain; charset=utf-8"


def escape_for(content_type: str) -> Callable[[str], str]:
    kind = content_type.lower()
    if "json" in kind:
        return lambda text: json.dumps(text, ensure_ascii=False)[1:-1]  # without the quotes, which the template has
    if "x-www-form-urlencoded" in kind:
        return quote_plus
    if "xml" in kind or "html" in kind:
        return escape
    return lambda text: text


_METHODS = ("POST", "PUT", "PATCH")
_SAMPLE = OutgoingMessage("msg_1", "topic", {"message": "a message"}, 1.0)


class HttpChannel:
    def __init__(self, name: str, settings: ChannelSettings, http: Http, hosts: Hosts) -> None:
        self._name, self._url, self._method = name, settings.url, settings.method.upper()
        self._http, self._hosts = http, hosts
        self._receiver, self._template = f"channel {name}", settings.body
        self._headers = dict(settings.headers)
        headers = {header.lower(): value for header, value in settings.headers.items()}
        content_type = headers.get("content-type") or content_type_of(settings.body)
        self._escape = escape_for(content_type)
        if "content-type" not in headers:
            self._headers["Content-Type"] = content_type
        self._is_json = "json" in content_type.lower()
        self._hidden: tuple[str, ...] = ()
        self.problem = self._checked()

    def _checked(self) -> str | None:
        where = f"channels.{self._name}"
        if self._method not in _METHODS:
            return f"{where}: its method must be {', '.join(_METHODS)}: others carry no message"
        try:
            target = checked(self._call(_SAMPLE)).target
        except CallFailed as failed:
            return f"{where}: {failed.reason}"
        self._hidden = (target.authority, target.host)
        if self._is_json:
            try:
                json.loads(self._body(_SAMPLE))
            except ValueError:
                return f'{where}: its body is not valid JSON once it is filled in; write texts as "{{message}}"'
        return None

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        call = self._call(outgoing)
        return self._hosts.pass_(
            self._receiver,
            lambda: post(self._http, call, self._receiver, lambda _: {"channel": self._name}, self._hidden),
            outgoing.owner,
        )

    def _call(self, outgoing: OutgoingMessage) -> HttpCall:
        headers = {IDEMPOTENCY_KEY: outgoing.id, **self._headers}
        body, patience = self._body(outgoing).encode(), outgoing.patience
        return HttpCall(self._method, self._url, headers, body, patience, outgoing.once, outgoing.owner)

    def _body(self, outgoing: OutgoingMessage) -> str:
        if not self._template:
            return json.dumps({"id": outgoing.id, **outgoing.fields}, ensure_ascii=False)
        values = {
            "id": outgoing.id,
            "topic": outgoing.topic,
            "message": outgoing.fields["message"],
            "title": outgoing.fields.get("title", ""),
        }
        # Filled in one pass, so that a message that contains {id} stays unchanged.
        return _HOLE.sub(lambda hole: self._escape(values[hole[1]]), self._template)
