"""Options as they are stored."""

from __future__ import annotations

from duetime.engine.policy.options import policy_from_json


def test_a_stored_timeout_below_a_millisecond_is_read_as_one() -> None:
    """Earlier versions accepted shorter ones through some interfaces; such a schedule must not become broken."""
    assert policy_from_json('{"timeout":999}').timeout == policy_from_json('{"timeout":1000}').timeout == 1000
