"""What an agent was trusted with does not come back in what it says."""

from __future__ import annotations

import pytest

from duetime.kinds.prompts.agents.transcript import Transcript, to_reply
from duetime.security.redaction import Secrets

HUSH = "hush-hush"


@pytest.mark.parametrize("name", ["MODEL_API_KEY", "GH_TOKEN", "SECRET", "db_password", "AWS_CREDENTIALS", "NPM_AUTH"])
def test_what_is_called_a_secret_is_taken_out_wherever_it_stands(name: str) -> None:
    secrets = Secrets("", {name: HUSH, "COLOUR": "dark green"})
    assert secrets.without(f"{HUSH}, {HUSH} and dark green") == "***, *** and dark green"
    assert secrets.cleaned({HUSH: [HUSH, {"a": f"{HUSH}{HUSH}"}]}) == {"***": ["***", {"a": "******"}]}


def test_one_secret_may_be_the_beginning_of_another() -> None:
    assert Secrets(HUSH, {"KEY": f"{HUSH}-and-more"}).without(f"{HUSH}-and-more {HUSH}") == "*** ***"


def test_of_an_error_what_looks_like_a_credential_is_taken_out_too() -> None:
    assert Secrets(HUSH).in_short(f"{HUSH} password=hunter2") == "*** password=***"


def test_no_part_of_a_reply_holds_one() -> None:
    transcript = Transcript(text=HUSH, outcome={"a": HUSH})
    transcript.begin_call(1, HUSH, {"a": [HUSH]})
    transcript.end_call(1, HUSH)
    transcript.deny(HUSH)
    reply = to_reply(transcript, f"failed with {HUSH}", Secrets(HUSH))
    assert HUSH not in repr(reply)
    assert (reply.text, reply.outcome, reply.denied, reply.error) == ("***", {"a": "***"}, ["***"], "failed with ***")
    assert reply.tool_calls == [{"name": "***", "arguments": {"a": ["***"]}, "result": "***"}]
