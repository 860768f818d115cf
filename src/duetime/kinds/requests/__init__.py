"""Requests: HTTP calls to a client's service at a set time, created by programs through QStash's API."""

from __future__ import annotations

from duetime.service.kind_spec import Command, KindSpec

SPEC = KindSpec(
    name="request",
    plural="requests",
    further_instructions="A request is an HTTP call that a program has scheduled; agents read, change and delete them.",
    build="duetime.kinds.requests.build:build",
    payload_fields="url, method, headers and so on",
    routes="duetime.kinds.requests.qstash_api.routes:routes",
    masking="duetime.kinds.requests.masking:MASKING",
    view="duetime.kinds.requests.view:REQUEST",
    form="duetime.kinds.requests.form:FORM",
    commands=(Command("request", "duetime.kinds.requests.cli:commands", "HTTP requests: add, edit and list them."),),
    outcome="duetime.kinds.requests.kind:outcome_of",
    text="url",
    may_be_outside=lambda settings: False,
    colour=4,
    icon="web",
)
