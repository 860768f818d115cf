"""A channel that is one plain HTTP request to an address of the operator's."""

from __future__ import annotations

import json
from collections.abc import Mapping

from duetime.core.delivering import Parcel
from duetime.core.outcome import Failed, Outcome
from duetime.delivery.calls import Call, CallFailed, checked
from duetime.delivery.channels.templates import content_type_of, escape_for, filled
from duetime.delivery.hosts import Hosts
from duetime.delivery.http import Http
from duetime.delivery.posting import IDEMPOTENCY_KEY, posted

_METHODS = ("POST", "PUT", "PATCH")
_SAMPLE = Parcel("msg_1", "topic", {"message": "a message"}, 1.0)


class HttpChannel:
    def __init__(
        self, name: str, url: str, method: str, headers: Mapping[str, str], body: str, http: Http, hosts: Hosts
    ) -> None:
        self._name, self._url, self._method, self._template = name, url, method.upper(), body
        self._http, self._hosts = http, hosts
        self._receiver = f"channel {name}"
        self._headers = dict(headers)
        given = {header.lower(): value for header, value in headers.items()}
        content_type = given.get("content-type") or content_type_of(body)
        self._escape = escape_for(content_type)
        if "content-type" not in given:
            self._headers["Content-Type"] = content_type
        self._is_json = "json" in content_type.lower()
        self._hidden: tuple[str, ...] = ()
        self._problem = self._checked()

    def problem(self) -> str | None:
        return self._problem

    def _checked(self) -> str | None:
        where = f"channels.{self._name}"
        if self._method not in _METHODS:
            return f"{where}: its method has to be {', '.join(_METHODS)}: others carry no message"
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

    def deliver(self, parcel: Parcel) -> Outcome:
        if self._problem is not None:
            return Failed(self._problem, permanent=True)
        call = self._call(parcel)
        return self._hosts.pass_(
            self._receiver,
            lambda: posted(self._http, call, self._receiver, lambda _: {"channel": self._name}, self._hidden),
            parcel.owner,
        )

    def _call(self, parcel: Parcel) -> Call:
        headers = {IDEMPOTENCY_KEY: parcel.id, **self._headers}
        return Call(self._method, self._url, headers, self._body(parcel).encode(), parcel.patience)

    def _body(self, parcel: Parcel) -> str:
        if not self._template:
            return json.dumps({"id": parcel.id, **parcel.fields}, ensure_ascii=False)
        values = {
            "id": parcel.id,
            "topic": parcel.topic,
            "message": parcel.fields["message"],
            "title": parcel.fields.get("title", ""),
        }
        return filled(self._template, values, self._escape)
