"""Delivery through the JSON publishing API of an ntfy server, with every field of a notification except its label."""

from __future__ import annotations

import base64
import hmac
import json
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from duetime.engine.encoding import json_object
from duetime.engine.kind import LOCAL
from duetime.engine.outcome import Failed, Outcome
from duetime.engine.urls import BadAddress, read_url
from duetime.kinds.notifications.delivery import NTFY, OutgoingMessage
from duetime.net.calls import PAGES, CallFailed, media_type_of
from duetime.net.client import Http, HttpAnswer, HttpCall
from duetime.net.host_limits import Hosts
from duetime.net.outcomes import IDEMPOTENCY_KEY, post

LARGEST_MESSAGE = 4096
"""Maximum number of bytes in UTF-8; a server turns a longer message into an attached file, or refuses it."""
LARGEST_BODY = 2 * LARGEST_MESSAGE
"""Maximum number of bytes of a whole request that a server reads."""
CUT = " … (cut)"
_LONGEST_ESCAPE = 6
"""Bytes that one byte of a message may take in JSON, as in \\u0001: cutting a sixth of the excess is never too much."""
_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")
_PREFIX = re.compile(r"[-_A-Za-z0-9]{0,63}")
_SENT = ("title", "priority", "tags", "markdown", "click", "actions", "icon", "attach", "filename")


@dataclass(frozen=True, slots=True)
class NtfyServer:
    url: str
    prefix: str = field(default="", repr=False)
    """Prefix of topics, because whoever guesses a topic on a public server can read it."""
    token: str = field(default="", repr=False)


class Ntfy:
    def __init__(self, server: NtfyServer, http: Http, hosts: Hosts) -> None:
        self._server, self._http, self._hosts = server, http, hosts
        self.problem = problem_of(server)

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        if (too_long := problem_of_topic(self._server, outgoing.topic, outgoing.owner)) is not None:
            return Failed(too_long, permanent=True)
        call, cut = publish_call(self._server, outgoing)
        origin = call.url.removesuffix("/")
        return self._hosts.pass_(
            origin, lambda: post(self._http, call, origin, lambda answer: _receipt(answer, origin, cut)), outgoing.owner
        )


def problem_of(server: NtfyServer) -> str | None:
    """Return what is wrong with its settings, without showing credentials."""
    try:
        target = read_url(server.url)
    except BadAddress as error:
        return f"notifications.server: {error}"
    if target.path != "/":
        return f"notifications.server: give the server alone, {target.origin}, without a topic or a path"
    if not _PREFIX.fullmatch(server.prefix):
        return "notifications.prefix: at most 63 letters, digits, hyphens and underscores"
    if not server.token.isprintable() or not server.token.isascii():
        return "notifications.token holds characters that no token has; copy it again"
    return None


def problem_of_topic(server: NtfyServer, topic: str, owner: str = LOCAL) -> str | None:
    real = real_topic(server, topic, owner)
    if _TOPIC.fullmatch(real):
        return None
    return f"ntfy takes topics of at most {64 - len(real) + len(topic)} characters here; use a shorter one"


def real_topic(server: NtfyServer, topic: str, owner: str = LOCAL) -> str:
    """Return the topic on the server, to which only this owner publishes through Duetime.

    Topics of owners other than `local` begin with a mark of the owner instead of the prefix: the prefix keeps the
    topics of `local` unguessable, so nobody else may learn it. For the same reason, the prefix is the key of the marks.
    """
    return f"{server.prefix}{topic}" if owner == LOCAL else f"{owner_mark(server, owner)}{topic}"


def owner_mark(server: NtfyServer, owner: str) -> str:
    """Return the prefix of all topics of an owner, which is the same on every node with these settings."""
    digest = hmac.digest(server.prefix.encode(), owner.encode("utf-8", "surrogatepass"), "sha256")
    return base64.b32encode(digest[:10]).decode().lower() + "-"


def address_of(server: NtfyServer, topic: str, owner: str) -> str:
    """Return the address to which an owner's phone subscribes; empty for a server that cannot be used."""
    if problem_of(server) is not None:
        return ""
    return f"{read_url(server.url).origin}/{real_topic(server, topic, owner)}"


def publish_call(server: NtfyServer, outgoing: OutgoingMessage) -> tuple[HttpCall, bool]:
    """Return the request to a server without problems, and whether the message had to be cut."""
    body, cut = publication(outgoing, real_topic(server, outgoing.topic, outgoing.owner))
    headers = {"Content-Type": "application/json"}
    if outgoing.id:
        headers[IDEMPOTENCY_KEY] = outgoing.id
    if server.token:
        headers["Authorization"] = f"Bearer {server.token}"
    return HttpCall(
        "POST", f"{read_url(server.url).origin}/", headers, body, outgoing.patience, outgoing.once, outgoing.owner
    ), cut


def publication(outgoing: OutgoingMessage, topic: str) -> tuple[bytes, bool]:
    """Return the body of the request, and whether the message had to be cut. The sequence id makes a phone replace the
    first copy of a message with its repetition instead of showing both; servers that do not know it ignore it. A
    message without an id is a new message each time."""
    fields = {name: outgoing.fields[name] for name in _SENT if name in outgoing.fields}
    sequence = re.sub(r"[^-_A-Za-z0-9]", "-", outgoing.id)[:64]
    whole = outgoing.fields["message"]
    room = LARGEST_MESSAGE
    while True:
        message = _shortened(whole, room)
        publish = {"topic": topic, "message": message, **({"sequence_id": sequence} if sequence else {}), **fields}
        body = json.dumps(publish, ensure_ascii=False, separators=(",", ":")).encode()
        excess = len(body) - LARGEST_BODY
        if excess <= 0 or room <= 0:
            break
        room = min(room, len(message.encode())) - -(-excess // _LONGEST_ESCAPE)
    return body, message != whole


def _shortened(text: str, largest: int) -> str:
    raw = text.encode()
    if len(raw) <= largest:
        return text
    return raw[: max(0, largest - len(CUT.encode()))].decode(errors="ignore") + CUT


def _receipt(answer: HttpAnswer, origin: str, cut: bool) -> dict[str, Any]:
    """Return the result of a delivery, with ntfy's own id of the message if the response can be read. A page is no
    answer of ntfy, but for example that of a network that asks for a login."""
    if answer.status == HTTPStatus.OK and media_type_of(answer.headers) in PAGES:
        raise CallFailed(f"{origin} answered with a page for people; check notifications.server and the network")
    receipt = (json_object(answer.body) or {}).get("id")
    result: dict[str, Any] = {"channel": NTFY}
    if isinstance(receipt, str):
        result["receipt"] = receipt[:200]
    return {**result, "cut": True} if cut else result
