"""Who carried out a change: as it is stored, and as people read it."""

from __future__ import annotations

import pytest

from duetime.engine.actor import UNKNOWN, Actor, actor_from, actor_phrase, is_agents, text_of

KNOWN = [
    (Actor("person", "ada", "dashboard"), "person/dashboard/ada", "ada (dashboard)"),
    (Actor("token", "a/b, c", "rest"), "token/rest/a/b, c", "a/b, c (rest)"),
    (Actor("run", "412", "mcp"), "run/mcp/412", "an agent's run 412 (mcp)"),
    (Actor("module", "shop", "python"), "module/python/shop", "the module shop (python)"),
]


@pytest.mark.parametrize(("actor", "text", "phrase"), KNOWN)
def test_an_actor_is_stored_as_text_and_read_back(actor: Actor, text: str, phrase: str) -> None:
    assert text_of(actor) == text
    assert actor_from(text) == actor
    assert actor_phrase(actor) == phrase


def test_what_was_stored_before_has_an_unknown_actor() -> None:
    assert text_of(UNKNOWN) is None
    assert actor_from(None) == UNKNOWN
    assert actor_phrase(UNKNOWN) == "unknown"


@pytest.mark.parametrize(
    ("author", "depth", "agents"),
    [("person/cli/local", 0, False), ("run/mcp/7", 1, True), (None, 0, False), (None, 1, True)],
)
def test_the_depth_tells_what_agents_stored_without_an_author(author: str | None, depth: int, agents: bool) -> None:
    assert is_agents(author, depth) is agents


def test_what_a_person_wrote_stays_a_persons_when_a_run_starts_it() -> None:
    assert not is_agents("person/cli/local", 1)
