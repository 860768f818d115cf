"""Builds the request kind, with its sender and the keys that sign its requests."""

from __future__ import annotations

import os
from functools import partial

from duetime.kinds.requests.kind import RequestKind
from duetime.kinds.requests.sender import Requests
from duetime.kinds.requests.signing_keys import SigningKeys
from duetime.net.client import Http
from duetime.net.host_limits import Hosts
from duetime.net.ssrf_guard import Guard
from duetime.security.private_files import load_secret
from duetime.service.kind_spec import BuildContext


def build(context: BuildContext) -> RequestKind:
    settings, clock = context.settings, context.clock
    keys = SigningKeys(partial(load_secret, settings.path_of_keys(), os.environ), context.store, clock)
    http = Http(clock, Guard(settings.allowed_hosts), connections=settings.threads)  # guarded: clients give the URLs
    requests = Requests(clock, http, Hosts(clock, settings.threads), keys.current)
    return RequestKind(requests, clock, keys, settings.allowed_hosts)
