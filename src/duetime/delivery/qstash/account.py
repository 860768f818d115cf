"""Who we are at QStash, and whether what was set up can be used."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

from duetime.delivery.addresses import why_closed
from duetime.delivery.guard import is_local_name
from duetime.delivery.ntfy import NtfyServer, problem_of
from duetime.delivery.urls import BadAddress, read_url


class Account(NamedTuple):
    token: str
    url: str = ""
    """Of a server of one's own; empty means QStash's."""


def problem_with(account: Account, server: NtfyServer) -> str | None:
    if find_spec("qstash") is None:
        return "the QStash SDK is not installed; install duetime[qstash]"
    if not account.token:
        return "notifications.qstash_token is not set; copy it from QStash's console"
    if not (account.token.isascii() and account.token.isprintable()):
        return "notifications.qstash_token holds characters that no token has; copy it again"
    if (problem := _problem_of_url(account.url)) is not None:
        return problem
    if not server.url:
        return "notifications.server is not set: QStash sends to an ntfy server, such as https://ntfy.sh"
    problem = problem_of(server)
    if problem is None and not account.url and _is_near(read_url(server.url).host):
        problem = "notifications.server is a server of this network alone, which QStash cannot reach from outside"
    return problem


def _problem_of_url(url: str) -> str | None:
    try:
        if url:
            read_url(url)
    except BadAddress as error:
        return f"notifications.qstash_url: {error}"
    return None


def _is_near(host: str) -> bool:
    try:
        return why_closed(host) is not None
    except ValueError:
        return is_local_name(host)
