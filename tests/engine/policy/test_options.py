"""Options as they are stored."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from duetime.engine.policy.options import (
    is_gated,
    make_policy,
    policy_for_ending,
    policy_from_json,
    policy_to_json,
    tags_of,
)


def test_a_stored_timeout_below_a_millisecond_is_read_as_one() -> None:
    """Earlier versions accepted shorter ones through some interfaces; such a schedule must not become broken."""
    assert policy_from_json('{"timeout":999}').timeout == policy_from_json('{"timeout":1000}').timeout == 1000


@pytest.mark.parametrize("ask", [tags_of, is_gated])
def test_a_long_policy_without_tags_and_gate_is_not_parsed_to_learn_that(ask: Callable[[str], object]) -> None:
    """The palette asks for the tags of a thousand schedules, and few long policies are remembered."""
    callback = {"on": "failure", "kind": "request", "payload": {"body": "x" * 1000}, "policy": {}}
    text = json.dumps({"callbacks": [callback]})
    policy_for_ending.cache_clear()
    assert not ask(text)
    assert policy_for_ending.long.cache_info().misses == 0
    assert ask(policy_to_json(make_policy({"tagged": ["a"], "only_if": "changed()"})))
