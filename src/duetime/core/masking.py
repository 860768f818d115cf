"""Credentials that an error quotes are taken out before anybody reads it."""

from __future__ import annotations

import re

# Each pattern takes linear time, whatever the text: nothing before the name is looked at, and runs give nothing back.
_NAMED_VALUE = r"(?:token|secret|password|api[_-]?key|signature)[\"']?\s{0,9}[=:]\s{0,9}[\"']?"
_SECRETS = (
    (re.compile(r"(://)[^\s/@]++@"), r"\1***@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s,;\"']+"), r"\1 ***"),
    (re.compile(rf"(?i)({_NAMED_VALUE})[^\s&,;\"']+"), r"\1***"),
    (re.compile(r"(?<![\w-])((?:\w{0,30}-){0,3})eyJ[\w-]++\.[\w-]++\.[\w-]*"), r"\1***"),
)


def without_secrets(reason: str) -> str:
    """What a backend said, fit to be shown: an error may quote the request with its credentials."""
    return masked_by_pattern(reason[:2000])[:500]


def masked_by_pattern(text: str) -> str:
    """Without what looks like a credential, whole."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def without_password(url: str) -> str:
    """Hints end up in logs, so that a password in them would too."""
    return re.sub(r"(?<=[?&]password=)[^&]*|(?<=://)([^:/@]*):[^/]*@", _masked, url)


def _masked(found: re.Match[str]) -> str:
    return "***" if found[1] is None else f"{found[1]}:***@"
