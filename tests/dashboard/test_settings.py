"""Settings and health, and connecting an agent: what an operator does there, and what others may see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from duetime.engine.kind import Caller
from duetime.engine.store import ScheduleQuery
from duetime.kinds.notifications.local import SILENT_WARNING
from duetime.security.tokens import BROWSER, Tokens
from duetime.settings import AgentSettings
from tests.support.browsing import FORM, Browser, cookie_of, field, signed_in, signed_in_as, words
from tests.support.web import Site, site


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    agents = {"scribe": AgentSettings(type="command", command=("cat",)), "gone": AgentSettings(command=("/no/such",))}
    with site(tmp_path_factory.mktemp("settings"), agents=agents) as made:
        yield made


def test_an_operator_issues_and_revokes_tokens(there: Site) -> None:
    browser = signed_in(there)
    reply = browser.send("/settings", {"issue": "yes", "email": "ada@example.org", "life": "1d"})
    found = re.search(r'id="issued-token">([^<]+)<', reply.body.decode())
    assert reply.status == 200 and found is not None and reply.headers["cache-control"] == "no-store"
    bearer = {"Authorization": f"Bearer {found[1]}"}
    assert there.ask("GET", "/api/v1/whoami", bearer).json["owner"] == "ada@example.org"
    assert found[1] not in browser.get("/settings").body.decode(), "a token is shown once"
    [id] = re.findall(
        r'value="(\w+)" aria-label="Revoke the token of ada@example.org', browser.get("/settings").body.decode()
    )
    asked = browser.send("/settings", {"revoke": id})
    assert asked.status == 200 and "Revoke this token? ada@example.org" in words(asked)
    assert "cannot be undone" in words(asked) and "is signed out" not in words(asked)
    assert there.ask("GET", "/api/v1/whoami", bearer).status == 200, "to ask does nothing"
    own = re.findall(r'class="tag">this browser<.*?<code>(\w+)<', browser.get("/settings").body.decode(), re.DOTALL)
    assert "This browser is signed in with it and is signed out." in words(
        browser.send("/settings", {"revoke": own[0]})
    )
    assert "The token is revoked." in browser.follow(
        browser.send("/settings", {"revoke": id, "sure": field(asked, "sure")})
    )
    assert there.ask("GET", "/api/v1/whoami", bearer).status == 401
    wrong = browser.send("/settings", {"issue": "yes", "email": "nobody", "life": "1d"})
    assert wrong.status == 422 and "email" in words(wrong)


def test_a_token_that_a_session_issues_ends_with_the_token_that_opened_it(there: Site) -> None:
    browser = signed_in_as(there, "root@example.org", scopes=["operator"])
    [opener] = [each for each in there.tokens.issued() if each.owner == "root@example.org" and not each.purpose]
    asked = {"issue": "yes", "email": "heir@example.org", "scope": "operator"}
    assert browser.send("/settings", {**asked, "life": "3650d"}).status == 422
    found = re.search(r'id="issued-token">([^<]+)<', browser.send("/settings", {**asked, "life": "1d"}).body.decode())
    assert found is not None
    grant = there.tokens.verify(found[1])
    assert (grant.parent, grant.expires <= opener.expires) == (opener.id, True)
    heir = Browser(there, cookie_of(there.ask("POST", "/login", FORM, urlencode({"token": found[1]}).encode())))
    assert "issues no others" in words(heir.send("/settings", {**asked, "life": "1d"}))
    there.tokens.revoke(opener.id)
    assert there.ask("GET", "/api/v1/whoami", {"Authorization": f"Bearer {found[1]}"}).status == 401


@pytest.mark.parametrize("revoked", ["first", "issued"])
def test_a_session_ends_with_its_token_and_with_the_one_that_this_was_issued_from(there: Site, revoked: str) -> None:
    day = 86_400 * 1_000_000
    first = there.tokens.verify(there.tokens.issue("first@example.org", day, scopes=["operator"]))
    token = there.tokens.issue("issued@example.org", day, scopes=["operator"], parent=first.id)
    issued = there.tokens.verify(token)
    browser = Browser(there, cookie_of(there.ask("POST", "/login", FORM, urlencode({"token": token}).encode())))
    sessions = there.tokens.for_purpose(BROWSER)
    older = sessions.issue("older", day, scopes=["operator"], parent=issued.id)
    assert browser.get("/settings").status == 200
    assert sessions.verify(older).parent == issued.id, "a session of an earlier version stays valid"
    there.tokens.revoke({"first": first, "issued": issued}[revoked].id)
    assert browser.get("/settings").status == 401


def test_a_session_of_an_issued_token_issues_none_where_there_is_no_record_of_that_token(
    there: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every node has records of only those tokens that it issued."""
    first = there.tokens.verify(there.tokens.issue("first@example.org", 3600 * 1_000_000))
    browser = signed_in_as(there, "issued@example.org", scopes=["operator"], parent=first.id)
    monkeypatch.setattr(Tokens, "records", lambda _: [])
    asked = {"issue": "yes", "email": "third@example.org", "life": "1d"}
    assert "issues no others" in words(browser.send("/settings", asked))


def test_an_unknown_token_cannot_be_revoked(there: Site) -> None:
    assert signed_in(there).send("/settings", {"revoke": "nosuchtoken"}).status == 404
    assert not there.tokens.is_revoked("nosuchtoken")


def test_others_see_their_own_and_change_nothing(there: Site) -> None:
    stranger = signed_in_as(there, "eve")
    page = stranger.text("/settings")
    assert "Only operators can issue and revoke tokens." in page and "eve" in page
    assert "ada@example.org" not in page and "browser operator" not in page and "/no/such" not in page
    [record] = [each for each in there.tokens.issued() if each.owner == "eve" and not each.purpose]
    for form in ({"issue": "yes", "email": "eve@example.org"}, {"revoke": record.id}):
        assert stranger.send("/settings", form).status == 403
    assert not there.tokens.is_revoked(record.id)
    assert str(Path(there.room.settings.db)) not in stranger.get("/connect").body.decode(), "no paths of the machine"


def test_channels_and_agents_are_tested(there: Site) -> None:
    browser = signed_in(there)
    page = browser.text("/settings")
    assert "scribe" in page and "cannot start" in page
    assert f"{SILENT_WARNING} The dashboard and duetime inbox show" in page, "a warning, then its explanation"
    for target, kind in (("notification:inbox", "notification"), ("prompt:scribe", "prompt")):
        assert browser.send("/settings", {"test": target}).status == 303
        [made, *_] = there.room.store.search(ScheduleQuery(kind=kind, owner="local", newest_first=True)).items
        assert made.definition.name.startswith("Test of")
    before = there.room.scheduler.search(Caller("local"), ScheduleQuery())
    for target in ("prompt:inbox", "prompt:nobody", "nothing:inbox", "notification:"):
        assert browser.send("/settings", {"test": target}).status == 404
    assert there.room.scheduler.search(Caller("local"), ScheduleQuery()) == before


def test_every_client_has_its_configuration(there: Site) -> None:
    page = signed_in(there).text("/connect")
    for client in ("Claude Code", "Cursor", "VS Code", "Codex", "Gemini CLI", "opencode"):
        assert client in page
    assert f"http://127.0.0.1:{there.port}/mcp" in page and "YOUR_TOKEN" in page
    proxied = signed_in(there).get("/connect", **{"X-Forwarded-Proto": "https"})
    assert f"https://127.0.0.1:{there.port}/mcp" in words(proxied)
