"""The names under which credentials stand: of arguments, headers, parameters, fields and variables."""

from __future__ import annotations

import re

LONGEST = 100
_NAME = re.compile(
    r"(?i)(auth|authorization|cookie|password|passphrase|passwd|pwd|secret|token|credential|signature"
    r"|(api|access|private|signing)[_-]?key|(?<![a-z0-9])sig)s?$"
)


def is_secret_name(name: str) -> bool:
    return len(name) <= LONGEST and _NAME.search(name) is not None
