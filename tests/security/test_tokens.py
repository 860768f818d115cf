"""Tokens: what they say, why one is refused, and the files behind them."""

from __future__ import annotations

import base64
import json
import os
import stat
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jwt
import pytest

from duetime.app import tokens_for_command
from duetime.engine.clock import DAY, HOUR, SECOND, Instant, SystemClock
from duetime.engine.errors import InvalidInput, StoreUnavailable
from duetime.http.sessions import Sessions
from duetime.security.claims import InvalidToken
from duetime.security.private_files import Exposed, load_secret, replace_private
from duetime.security.tokens import BROWSER, Tokens, TooManySignIns
from duetime.settings import load_settings
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.support.cli import Cli
from tests.support.tokens import START, MemoryRevocations, claims, forged, tokens_with

LIFE = 30 * DAY


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(START)


@pytest.fixture
def revocations() -> MemoryRevocations:
    return MemoryRevocations()


@pytest.fixture
def tokens(revocations: MemoryRevocations, tmp_path: Path, clock: SettableClock) -> Tokens:
    return tokens_with(revocations, tmp_path / "auth", clock)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- what they say ----------------------------------------------------------------------------------------------


def test_a_token_says_who_calls(tokens: Tokens) -> None:
    made = tokens.issue("ada@example.org", LIFE, email="ada@example.org", timezone="Europe/Berlin")
    grant = tokens.verify(made)
    assert (grant.subject, grant.owner, grant.email, grant.zone) == (
        "ada@example.org",
        "ada@example.org",
        "ada@example.org",
        "Europe/Berlin",
    )
    assert (grant.operator, grant.scopes, grant.depth) == (False, (), 0)
    assert grant.expires - grant.issued == 30 * 24 * 3600


def test_a_team_shares_an_owner_and_an_operator_has_a_scope(tokens: Tokens) -> None:
    grant = tokens.verify(tokens.issue("ada@example.org", LIFE, owner="team", scopes=["operator"], depth=2))
    assert (grant.subject, grant.owner, grant.operator, grant.depth) == ("ada@example.org", "team", True, 2)


def test_the_algorithm_is_hs512(tokens: Tokens) -> None:
    assert jwt.get_unverified_header(tokens.issue("ada", LIFE))["alg"] == "HS512"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"email": "no address"}, "email:"),
        ({"timezone": "Mars/Olympus"}, "Unknown time zone"),
        ({"scopes": ["root"]}, "scope: there is no scope 'root'"),
        (
            {"scopes": ["agent:"]},
            "scope: there is no scope 'agent:'; choose from operator, read, write, delete, agent:NAME",
        ),
        ({"scopes": ["kind:a b"]}, "scope: there is no scope 'kind:a b'"),
        ({"owner": ""}, "owner:"),
        ({"owner": "two\nlines"}, "owner:"),
    ],
)
def test_what_cannot_be_issued_is_named(tokens: Tokens, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        tokens.issue("ada", LIFE, **given)


@pytest.mark.parametrize("life", [0, -DAY, 3651 * DAY])
def test_a_life_has_bounds(tokens: Tokens, life: int) -> None:
    with pytest.raises(InvalidInput, match="expires-in"):
        tokens.issue("ada", life)


# -- why one is refused -----------------------------------------------------------------------------------------


def test_a_token_ends_by_our_own_clock(tokens: Tokens, clock: SettableClock) -> None:
    made = tokens.issue("ada", LIFE)
    clock.move_to(Instant(START + LIFE - SECOND))
    tokens.verify(made)
    clock.move_to(Instant(START + LIFE))
    with pytest.raises(InvalidToken, match="expired on 2026-03-31 00:00 UTC"):
        tokens.verify(made)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        pytest.param(forged(claims(iss="somebody")), "another issuer", id="issuer"),
        pytest.param(forged(claims(aud="elsewhere")), "another audience", id="audience"),
        pytest.param(forged(claims(), secret=b"y" * 64), "not signed with this server's secret", id="secret"),
        pytest.param(forged(claims(), algorithm="HS256"), "not signed with HS512", id="HS256"),
        pytest.param(forged(claims(), algorithm="HS384"), "not signed with HS512", id="HS384"),
        pytest.param(forged(claims(), algorithm="none", secret=None), "not signed with HS512", id="none"),
        pytest.param(forged(claims(exp=None)), "no claim exp", id="no expiry"),
        pytest.param(forged(claims(jti=None)), "no claim jti", id="no id"),
        pytest.param(forged(claims(sub=None)), "no claim sub", id="no subject"),
        pytest.param(forged(claims(aud=None)), "another audience|no claim aud", id="no audience"),
        pytest.param(forged(claims(iss=None)), "no claim iss", id="no issuer"),
        pytest.param(forged(claims(exp="tomorrow")), "exp is not a usable number", id="expiry is text"),
        pytest.param(forged(claims(exp=True)), "exp is not a usable number", id="expiry is a boolean"),
        pytest.param(forged(claims(exp=10**18)), "exp is not a usable number", id="expiry beyond time"),
        pytest.param(forged(claims(jti="../../etc/passwd")), "scope or jti", id="an id that is a path"),
        pytest.param(forged(claims(owner=7)), "owner cannot be used", id="owner is a number"),
        pytest.param(forged(claims(owner="")), "owner cannot be used", id="empty owner"),
        pytest.param(forged(claims(scope=["operator"])), "scope or jti", id="scope is a list"),
        pytest.param(forged(claims(zoneinfo="Mars/Olympus")), "zoneinfo cannot be used", id="zone"),
        pytest.param(forged(claims(depth=-1)), "depth is not a usable number", id="negative depth"),
        pytest.param(forged(claims(iat=START // SECOND + 3600)), "not valid yet", id="issued in the future"),
        pytest.param(forged(claims(nbf=START // SECOND + 3600)), "not valid yet", id="not before"),
        pytest.param("", "cannot be read; copy it whole", id="empty"),
        pytest.param("a.b.c", "cannot be read; copy it whole", id="no token"),
        pytest.param("\udcff", "cannot be read; copy it whole", id="no text"),
    ],
)
def test_a_forged_token_is_refused_and_told_why(tokens: Tokens, token: str, words: str) -> None:
    with pytest.raises(InvalidToken, match=words):
        tokens.verify(token)


def test_what_was_tampered_with_is_refused(tokens: Tokens) -> None:
    header, body, signature = tokens.issue("ada", LIFE).split(".")
    said = json.loads(base64.urlsafe_b64decode(body + "=="))
    other = base64.urlsafe_b64encode(json.dumps({**said, "scope": "operator"}).encode()).rstrip(b"=").decode()
    with pytest.raises(InvalidToken, match="not signed with this server's secret"):
        tokens.verify(f"{header}.{other}.{signature}")


def test_a_revocation_is_seen_by_every_process(
    tokens: Tokens, revocations: MemoryRevocations, tmp_path: Path, clock: SettableClock
) -> None:
    elsewhere = tokens_with(revocations, tmp_path / "auth", clock)
    made = tokens.issue("ada", LIFE)
    id = elsewhere.read(made).id
    assert tokens.revoke(id)
    with pytest.raises(InvalidToken, match="was revoked"):
        elsewhere.verify(made)
    assert not elsewhere.revoke(id), "it was revoked before"
    assert [(record.id, record.revoked) for record in elsewhere.issued()] == [(id, True)]


def test_an_id_is_no_path(tokens: Tokens) -> None:
    with pytest.raises(InvalidInput, match="not the id of a token"):
        tokens.revoke("../../secret")


# -- the local token --------------------------------------------------------------------------------------------


def test_the_local_token_is_made_once_and_used_again(tokens: Tokens, clock: SettableClock) -> None:
    made = tokens.local()
    clock.jump(timedelta(days=365))
    assert tokens.local() == made
    grant = tokens.verify(made)
    assert (grant.subject, grant.owner, grant.operator) == ("local", "local", False)


def test_a_local_token_that_is_of_no_use_any_more_is_made_anew(tokens: Tokens, tmp_path: Path) -> None:
    first = tokens.local()
    tokens.revoke(tokens.verify(first).id)
    second = tokens.local()
    tokens.verify(second)
    other_secret = tokens_with(MemoryRevocations(), tmp_path / "auth", SystemClock(), b"z" * 64)
    third = other_secret.local()
    assert len({first, second, third}) == 3
    other_secret.verify(third)


# -- files ------------------------------------------------------------------------------------------------------


def test_the_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "auth"
    old = os.umask(0)
    try:
        secret = load_secret(folder, {})
    finally:
        os.umask(old)
    assert load_secret(folder, {}) == secret
    assert len(secret) >= 64
    assert (mode(folder.parent), mode(folder), mode(folder / "secret")) == (0o700, 0o700, 0o600)
    assert [path.name for path in folder.iterdir()] == ["secret"]


def test_everything_that_is_kept_is_for_its_owner_alone(tokens: Tokens, tmp_path: Path) -> None:
    tokens.revoke(tokens.verify(tokens.issue("ada", LIFE)).id)
    made = tokens.local()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {mode(path) for path in files} == {0o600}
    assert {mode(path) for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
    holding = [path.name for path in files if made.rpartition(".")[2] in path.read_text()]
    assert holding == ["local.token"], "no record holds a token"


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o660])
def test_a_secret_that_others_may_have_read_is_refused(tmp_path: Path, wide: int) -> None:
    load_secret(tmp_path, {})
    (tmp_path / "secret").chmod(wide)
    with pytest.raises(Exposed, match=rf"can be read by others \(mode {wide:o}\).*chmod 600"):
        load_secret(tmp_path, {})


def test_a_secret_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x" * 64)
    (tmp_path / "auth").mkdir(mode=0o700)
    (tmp_path / "auth" / "secret").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exposed, match="has to be a file of your own"):
        load_secret(tmp_path / "auth", {})


def test_a_folder_that_was_left_open_is_closed(tmp_path: Path) -> None:
    (tmp_path / "auth").mkdir(mode=0o755)
    load_secret(tmp_path / "auth", {})
    assert mode(tmp_path / "auth") == 0o700


def test_the_environment_gives_the_secret(tmp_path: Path) -> None:
    assert load_secret(tmp_path / "auth", {"DUETIME_SECRET": "x" * 64}) == b"x" * 64
    assert not (tmp_path / "auth").exists()


@pytest.mark.parametrize("short", ["", "x" * 63])
def test_a_short_secret_is_refused(tmp_path: Path, short: str) -> None:
    with pytest.raises(InvalidInput, match=f"has {len(short)} bytes, at least 64 are needed; make one: python3"):
        load_secret(tmp_path, {"DUETIME_SECRET": short})
    load_secret(tmp_path, {})
    (tmp_path / "secret").write_text("short")
    with pytest.raises(InvalidInput, match="has 5 bytes"):
        load_secret(tmp_path, {})


# -- what is left behind ----------------------------------------------------------------------------------------


def test_records_of_what_expired_go(tokens: Tokens, clock: SettableClock, tmp_path: Path) -> None:
    for _ in range(5):
        tokens.for_purpose(BROWSER).issue("browser", DAY)
    lasting = tokens.issue("ada", 90 * DAY)
    clock.move_to(Instant(START + 60 * DAY))
    tokens.issue("bob", DAY)
    assert sorted(record.subject for record in tokens.issued()) == ["ada", "bob"]
    assert tokens.verify(lasting).subject == "ada"


def sign_in(sessions: Sessions, token: str, times: int = 1) -> list[str]:
    return [sessions.by_token(token) for _ in range(times)]


def is_valid(sessions: Sessions, session: str) -> bool:
    try:
        sessions.verify(session)
    except InvalidToken:
        return False
    return True


def test_a_token_has_20_living_sessions_and_a_further_one_ends_the_oldest(tokens: Tokens, clock: SettableClock) -> None:
    sessions, mine, theirs = Sessions(tokens, clock), tokens.issue("ada", DAY), tokens.issue("bob", DAY)
    [other] = sign_in(sessions, theirs)
    opened = sign_in(sessions, mine, 20)
    assert all(is_valid(sessions, each) for each in opened)
    sessions.end(sessions.verify(opened[5]).id)
    opened += sign_in(sessions, mine)
    assert is_valid(sessions, opened[0]), "one of them was signed out, so there was room"
    opened += sign_in(sessions, mine, 2)
    assert [number for number, each in enumerate(opened) if not is_valid(sessions, each)] == [0, 1, 5]
    assert is_valid(sessions, other)


def test_a_token_signs_in_60_times_an_hour(tokens: Tokens, clock: SettableClock) -> None:
    sessions, mine = Sessions(tokens, clock), tokens.issue("ada", DAY)
    opened = sign_in(sessions, mine, 60)
    with pytest.raises(TooManySignIns, match="use one of those sessions, or wait"):
        sessions.by_token(mine)
    assert is_valid(sessions, opened[-1])
    assert is_valid(sessions, sessions.by_token(tokens.issue("ada", DAY))), "another token has its own number"
    for _ in range(70):
        assert is_valid(sessions, sessions.by_link(sessions.link())), "only an operator makes links"
    clock.move_to(Instant(START + HOUR))
    assert is_valid(sessions, sessions.by_token(mine))


@pytest.mark.later
def test_sessions_leave_one_file_for_each_token_and_are_listed(
    tokens: Tokens, clock: SettableClock, tmp_path: Path
) -> None:
    sessions, mine = Sessions(tokens, clock), tokens.issue("ada", 90 * DAY)
    for hour in range(5):
        clock.move_to(Instant(START + hour * HOUR))
        sign_in(sessions, mine, 60)
        sessions.by_link(sessions.link())
    names = [path.name for path in (tmp_path / "auth" / "tokens").iterdir()]
    id = tokens.verify(mine).id
    assert sorted(names) == sorted([f"{id}.json", f"{id}.sessions", "links.sessions"])
    living = [each for each in tokens.issued() if each.purpose == "browser" and not each.revoked]
    assert sorted(each.parent for each in living) == [""] * 5 + [id] * 20


def test_a_revoked_token_stays_revoked_when_the_file_of_its_sessions_goes(tokens: Tokens, clock: SettableClock) -> None:
    sessions, mine = Sessions(tokens, clock), tokens.issue("ada", 365 * DAY)
    session = sessions.verify(sessions.by_token(mine)).id
    tokens.revoke(tokens.verify(mine).id)
    clock.move_to(Instant(START + 60 * DAY))
    tokens.issue("bob", DAY)
    assert session not in [each.id for each in tokens.records()], "its record went long after it expired"
    with pytest.raises(InvalidToken, match="revoked"):
        tokens.verify(mine)


def test_a_damaged_file_of_sessions_prevents_no_sign_in(tokens: Tokens, clock: SettableClock, tmp_path: Path) -> None:
    sessions, mine = Sessions(tokens, clock), tokens.issue("ada", DAY)
    for text in ("{", "[[]]", '[{"jti": 1}]', "null"):
        replace_private(tmp_path / "auth" / "tokens" / f"{tokens.verify(mine).id}.sessions", text)
        assert is_valid(sessions, sessions.by_token(mine)), text


def test_a_request_does_not_ask_the_store_each_time(tmp_path: Path, clock: SettableClock) -> None:
    with closing(SqliteStore(tmp_path / "one.db")) as store:
        store.migrate()
        with patch.object(store, "revoked", wraps=store.revoked) as asked:
            tokens = tokens_with(store, tmp_path / "a", clock)
            made = tokens.issue("ada", LIFE)
            for _ in range(500):
                tokens.verify(made)
            assert asked.call_count <= 3
        tokens.revoke(tokens.read(made).id)
        with pytest.raises(InvalidToken, match="revoked"):
            tokens.verify(made)


def test_where_nobody_can_say_what_was_revoked_nobody_is_let_in(tmp_path: Path, clock: SettableClock) -> None:
    store = SqliteStore(tmp_path / "one.db")
    store.migrate()
    tokens = tokens_with(store, tmp_path / "a", clock)
    made = tokens.issue("ada", LIFE)
    store.close()
    with pytest.raises(StoreUnavailable):
        tokens.verify(made)


# -- the command line -------------------------------------------------------------------------------------------


def issued(cli: Cli, *more: str) -> Any:
    answer = cli("token", "issue", "--email", "ada@example.org", "--expires-in", "30d", "--json", *more)
    assert answer.code == 0, answer
    return answer.document


def test_issue_show_list_revoke(cli: Cli) -> None:
    made = issued(cli, "--owner", "team", "--timezone", "Europe/Berlin", "--scope", "operator")
    shown = cli("token", "show", made["token"], "--json").document
    assert shown["valid"] is True
    assert (shown["owner"], shown["timezone"], shown["scope"]) == ("team", "Europe/Berlin", "operator")
    (listed,) = cli("token", "list", "--json").document["tokens"]
    assert (listed["id"], listed["status"]) == (made["id"], "valid")
    assert made["token"] not in cli("token", "list").out
    assert cli("token", "revoke", made["id"]).out == f"Token {made['id']} is revoked.\n"
    assert cli("token", "list", "--json").document["tokens"][0]["status"] == "revoked"
    again = cli("token", "show", made["token"])
    assert again.code == 4
    assert "no: the token was revoked" in again.out


@pytest.mark.socket
def test_what_each_token_is_for(cli: Cli) -> None:
    """A session in a browser ends by its id as well; who revokes one should know which it is."""
    made = issued(cli)
    feed = cli("token", "calendar", "--port", "1", "--json").document
    with tokens_for_command(load_settings()) as tokens:
        Sessions(tokens, SystemClock()).by_token(made["token"])
    listed = {each["id"]: each["for"] for each in cli("token", "list", "--json").document["tokens"]}
    assert sorted(listed.values()) == ["browser", "calendar", "program"]
    assert (listed[made["id"]], listed[feed["id"]]) == ("program", "calendar")


def test_records_of_old_say_nothing_of_it(cli: Cli, tmp_path: Path) -> None:
    made = issued(cli)
    [kept] = (tmp_path / "data" / "duetime" / "auth" / "tokens").glob(f"{made['id']}.json")
    kept.write_text(json.dumps({name: value for name, value in json.loads(kept.read_text()).items() if name != "for"}))
    [listed] = cli("token", "list", "--json").document["tokens"]
    assert (listed["id"], listed["for"]) == (made["id"], "program")


def test_the_scopes_of_a_token_are_shown(cli: Cli) -> None:
    scopes = ("--scope", "write", "--scope", "kind:prompt", "--scope", "agent:claude")
    assert issued(cli, *scopes)["scope"] == "agent:claude kind:prompt write"
    (listed,) = cli("token", "list", "--json").document["tokens"]
    assert listed["scope"] == "agent:claude kind:prompt write"
    assert "agent:claude" in cli("token", "list").out
    assert "scope read, until" in cli("token", "issue", "--email", "ada@example.org", "--scope", "read").err


def test_the_token_alone_goes_to_standard_output(cli: Cli) -> None:
    answer = cli("token", "issue", "--email", "ada@example.org")
    assert answer.out.count("\n") == 1
    assert answer.out.count(".") == 2
    assert "for ada@example.org, owner ada@example.org, until " in answer.err
    assert answer.out.strip() not in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("issue",), 2, "--email"),
        (("issue", "--email", "nobody"), 2, "email: must be an address"),
        (("issue", "--email", "a@b.c", "--expires-in", "soon"), 2, "--expires-in: could not parse"),
        (("issue", "--email", "a@b.c", "--scope", "root"), 2, "no scope 'root'"),
        (("issue", "--email", "a@b.c", "--timezone", "Berlin"), 2, "Europe/Berlin"),
        (("show", "nonsense"), 4, "this is not a token; copy it whole"),
        (("revoke", "0000000000"), 3, "no token with the id"),
    ],
)
def test_what_cannot_be_done_is_said(cli: Cli, arguments: tuple[str, ...], code: int, words: str) -> None:
    answer = cli("token", *arguments)
    assert answer.code == code
    assert words in answer.err


def test_a_short_secret_in_the_environment_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_SECRET", "short")
    answer = cli("token", "list")
    assert (answer.code, answer.out) == (2, "")
    assert "DUETIME_SECRET: the secret has 5 bytes" in answer.err
