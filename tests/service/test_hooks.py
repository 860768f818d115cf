"""Hooks over every interface: their secret is shown once and to people only, and runs of agents change none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from duetime import Duetime
from duetime.engine.actor import RUN, Actor
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.store_interfaces import HookRow
from duetime.security.webhook_signatures import SCHEMES
from duetime.service.operations import hooks
from duetime.service.operations.hooks import MOST_HOOKS, ChangeHook, CreateHook, event_name, note_deliveries
from duetime.service.services import Call
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import browser_of, signed_in_as
from tests.support.cli import Cli
from tests.support.web import Site

JSON = {"Content-Type": "application/json"}
ADA = Caller("ada")


class Made(NamedTuple):
    id: str
    secret: str


class Interfaces:
    """Creates, rotates, tests and deletes a hook of the local owner over one interface."""

    def __init__(self, there: Site, cli: Cli) -> None:
        self.there, self.cli = there, cli

    @contextmanager
    def python(self) -> Iterator[Duetime]:
        with closing(Duetime(settings=Settings(db=self.there.room.settings.db, timezone="UTC"))) as opened:
            yield opened

    def api(self, method: str, path: str, body: object = None) -> Any:
        bearer = self.there.bearer(LOCAL)
        reply = self.there.ask(method, f"/api/v1/hooks{path}", {**bearer, **JSON}, json.dumps(body or {}).encode())
        assert reply.status < 300, reply.body
        return reply.json if reply.body else None

    def create_rest(self, name: str) -> Made:
        made = self.api("POST", "", {"name": name, "scheme": "github"})
        return Made(made["id"], made["secret"])

    def create_python(self, name: str) -> Made:
        with self.python() as opened:
            made = opened.create_hook(name, "github")
            return Made(made.id, made.secret or "")

    def create_cli(self, name: str) -> Made:
        made = json.loads(self.cli("hook", "create", name, "--scheme", "github", "--json").out)
        return Made(made["id"], made["secret"])

    def create_dashboard(self, name: str) -> Made:
        browser, proof = browser_of(self.there)
        page = browser.send("/settings/hooks", {"name": name, "scheme": "github", "csrf": proof})
        return self._on(page.body.decode())

    def create_mcp(self, name: str) -> Made:
        answer = Agent(self.there.room.services, Caller(LOCAL), "UTC").knows("create_hook", name=name, scheme="github")
        browser, proof = browser_of(self.there)
        path = answer["secret_page"].removeprefix(hooks.address(local(self.there)))
        assert "no secret yet" in browser.text(path)
        return self._on(browser.send(f"{path}/rotate", {"csrf": proof}).body.decode())

    def _on(self, page: str) -> Made:
        [id] = set(re.findall(r"/settings/hooks/(hook_\w+)/rotate", page))
        [secret] = re.findall(r'id="hook-secret">([^<]+)<', page)
        return Made(id, secret)

    def rotate_rest(self, name: str) -> str:
        return str(self.api("POST", f"/{name}/rotate")["secret"])

    def rotate_python(self, name: str) -> str:
        with self.python() as opened:
            return opened.rotate_hook(name).secret or ""

    def rotate_cli(self, name: str) -> str:
        return str(json.loads(self.cli("hook", "rotate", name, "--json").out)["secret"])

    def rotate_dashboard(self, name: str) -> str:
        browser, proof = browser_of(self.there)
        id = one(self.there, name).id
        return self._on(browser.send(f"/settings/hooks/{id}/rotate", {"csrf": proof}).body.decode()).secret

    def test_rest(self, name: str) -> None:
        self.api("POST", f"/{name}/test")

    def test_python(self, name: str) -> None:
        with self.python() as opened:
            opened.test_hook(name)

    def test_cli(self, name: str) -> None:
        assert self.cli("hook", "test", name).out == f"Reported {name}.test.\n"

    def test_dashboard(self, name: str) -> None:
        browser, proof = browser_of(self.there)
        sent = browser.send(f"/settings/hooks/{one(self.there, name).id}/test", {"csrf": proof})
        assert "The test event is stored." in browser.follow(sent)

    def delete_rest(self, name: str) -> None:
        self.api("DELETE", f"/{name}")

    def delete_python(self, name: str) -> None:
        with self.python() as opened:
            opened.delete_hook(name)

    def delete_cli(self, name: str) -> None:
        self.cli("hook", "delete", name)

    def delete_dashboard(self, name: str) -> None:
        browser, proof = browser_of(self.there)
        sent = browser.send(f"/settings/hooks/{one(self.there, name).id}/delete", {"csrf": proof})
        assert "The hook is deleted" in browser.follow(sent)

    def delete_mcp(self, name: str) -> None:
        agent = Agent(self.there.room.services, Caller(LOCAL), "UTC")
        assert agent.knows("delete_schedule", schedule_id=one(self.there, name).id)["success"]


def local(there: Site) -> Call:
    return Call(there.room.services, Caller(LOCAL), "UTC")


def one(there: Site, name: str) -> HookRow:
    return hooks.find_hook(local(there), name)


def refused(attempt: Callable[[], object]) -> DuetimeError:
    with pytest.raises(DuetimeError) as caught:
        attempt()
    return caught.value


@pytest.mark.parametrize("interface", ["rest", "python", "cli", "dashboard", "mcp"])
def test_every_interface_creates_shows_the_secret_once_and_deletes(there: Site, on_site: Cli, interface: str) -> None:
    reached, name = Interfaces(there, on_site), f"from_{interface}"
    made = getattr(reached, f"create_{interface}")(name)
    stored = one(there, name)
    assert (stored.id, stored.secret) == made
    secrets = {made.secret}
    if interface != "mcp":
        secrets.add(getattr(reached, f"rotate_{interface}")(name))
        getattr(reached, f"test_{interface}")(name)
        assert one(there, name).secret in secrets - {made.secret}
        [delivery] = json.loads(one(there, name).deliveries)
        assert delivery["event"] == f"{name}.test" and one(there, name).used == delivery["at"]
    seen = everything_shown(there, on_site)
    assert stored.id in seen and not any(secret in seen for secret in secrets)
    getattr(reached, f"delete_{interface}")(name)
    assert refused(lambda: one(there, name)).code == "not_found"


def everything_shown(there: Site, cli: Cli) -> str:
    """Return all that lists, pages, exports and statuses show."""
    browser, _ = browser_of(there)
    pages = [browser.get("/settings").body.decode(), browser.get("/settings/hooks").body.decode()]
    pages += [browser.get(f"/settings/hooks/{each.id}").body.decode() for each in there.room.store.hooks(None, 100)]
    bearer = there.bearer("root", scopes=["operator"])
    for path in ("/api/v1/hooks", "/api/v1/status"):
        pages.append(there.ask("GET", path, bearer).body.decode())
    pages.append(str(Agent(there.room.services, Caller(LOCAL), "UTC").knows("status")))
    return "\n".join([*pages, cli("hook", "list").out, cli("hook", "list", "--json").out, cli("export").out])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_tool_never_returns_the_secret(there: Site, scheme: str) -> None:
    agent = Agent(there.room.services, Caller(LOCAL), "UTC")
    answer = agent.knows("create_hook", name=f"tool_{scheme}", scheme=scheme)
    stored = one(there, f"tool_{scheme}")
    assert stored.secret == "", "a person makes it"
    assert stored.id in answer["url"] and answer["secret_page"].endswith(f"/settings/hooks/{stored.id}")
    again = agent.knows("create_hook", name=f"tool_{scheme}", scheme=scheme)
    assert "already" in again["error"]
    secret = hooks.rotate_hook(local(there), ChangeHook(hook=stored.id)).value["secret"]
    listed = agent.knows("status")["hooks"]
    assert {"id": stored.id, "name": stored.name, "last_used": None} in listed and secret not in str(listed)


def test_a_visit_of_the_page_reveals_nothing(there: Site) -> None:
    hooks.create_hook(local(there), CreateHook(name="unseen", scheme="github", has_secret=False))
    id, (browser, proof) = one(there, "unseen").id, browser_of(there)
    page = browser.get(f"/settings/hooks/{id}")
    assert one(there, "unseen").secret == "" and page.headers["cache-control"] == "no-store"
    made = browser.send(f"/settings/hooks/{id}/rotate", {"csrf": proof})
    secret = one(there, "unseen").secret
    assert secret in made.body.decode() and made.headers["cache-control"] == "no-store"
    assert secret not in browser.get(f"/settings/hooks/{id}").body.decode()
    pasted = {"csrf": proof, "secret": "issued by the sender"}
    assert "issued by the sender" not in browser.follow(browser.send(f"/settings/hooks/{id}/rotate", pasted))
    secret = one(there, "unseen").secret
    assert secret == pasted["secret"]
    refusal = browser.send(f"/settings/hooks/{id}/rotate", {"csrf": proof, "secret": "tooshort"})
    assert refusal.status == 422 and secret not in refusal.body.decode() and one(there, "unseen").secret == secret
    assert browser.send(f"/settings/hooks/{id}/other", {"csrf": proof}).status == 404


def run_of_an_agent() -> list[Caller]:
    return [Caller(LOCAL, depth=1), Caller(LOCAL, actor=Actor(RUN, "7", "mcp"))]


@pytest.mark.parametrize("caller", run_of_an_agent(), ids=["depth", "actor"])
def test_a_run_of_an_agent_neither_creates_nor_changes_hooks(there: Site, caller: Caller) -> None:
    hooks.create_hook(local(there), CreateHook(name="kept", scheme="github", has_secret=False))
    before, call = one(there, "kept"), Call(there.room.services, caller, "UTC")
    for attempt in (
        lambda: hooks.create_hook(call, CreateHook(name="fresh", scheme="url")),
        lambda: hooks.rotate_hook(call, ChangeHook(hook="kept")),
        lambda: hooks.send_test(call, ChangeHook(hook="kept")),
        lambda: hooks.delete_hook(call, ChangeHook(hook="kept")),
    ):
        assert refused(attempt).code == "run_token"
    agent = Agent(there.room.services, caller, "UTC")
    assert "an agent's run" in agent.knows("create_hook", name="fresh", scheme="url")["error"]
    assert "an agent's run" in agent.knows("delete_schedule", schedule_id=before.id)["error"]
    assert one(there, "kept") == before
    hooks.delete_hook(local(there), ChangeHook(hook="kept"))


@pytest.mark.parametrize("scopes", [("read",), ("delete",), ("write", "kind:job"), ("write", "agent:claude")])
def test_a_token_with_narrow_scopes_creates_no_hook(there: Site, scopes: tuple[str, ...]) -> None:
    call = Call(there.room.services, Caller("ada", scopes=scopes), "UTC")
    assert refused(lambda: hooks.create_hook(call, CreateHook(name="x", scheme="url"))).code == "scope"
    assert hooks.hooks(call).value == []


def test_hooks_of_others_do_not_exist(there: Site) -> None:
    mine = hooks.create_hook(Call(there.room.services, ADA, "UTC"), CreateHook(name="mine", scheme="hmac")).value
    bob = Call(there.room.services, Caller("bob"), "UTC")
    for reference in (mine["id"], "mine"):
        for attempt in (hooks.send_test, hooks.delete_hook, hooks.rotate_hook):
            assert refused(partial(attempt, bob, ChangeHook(hook=reference))).code == "not_found"
        assert refused(partial(hooks.find_hook, bob, reference)).code == "not_found"
    page = signed_in_as(there, "bob").get(f"/settings/hooks/{mine['id']}")
    assert page.status == 404 and b"mine" not in page.body
    assert hooks.hooks(bob).value == []
    operator = Call(there.room.services, Caller("root", operator=True), "UTC")
    assert mine["id"] in [each["id"] for each in hooks.hooks(operator).value], "an operator sees all"
    hooks.delete_hook(operator, ChangeHook(hook=mine["id"]))


@pytest.mark.parametrize("name", ["", "Git", "1st", "a b", "a.b", "~x", "é", "x" * 41, "*", "<b>"])
def test_names_that_no_event_could_have_are_refused(there: Site, name: str) -> None:
    error = refused(lambda: hooks.create_hook(local(there), CreateHook(name=name, scheme="url")))
    assert (error.code, error.field) == ("invalid", "name")


def test_unknown_schemes_and_bad_secrets_are_refused(there: Site, on_site: Cli) -> None:
    assert refused(lambda: hooks.create_hook(local(there), CreateHook(name="x", scheme="md5"))).field == "scheme"
    short = CreateHook(name="x", scheme="github", secret="short")
    assert refused(lambda: hooks.create_hook(local(there), short)).field == "secret"
    browser, proof = browser_of(there)
    page = browser.send("/settings/hooks", {"name": "x", "scheme": "github", "secret": "tooshort", "csrf": proof})
    assert page.status == 422 and b"16 to 200" in page.body and b"tooshort" not in page.body
    answer = on_site("hook", "create", "Bad Name", "--scheme", "github")
    assert answer.code == 2 and "lower-case" in answer.err


@pytest.mark.parametrize(
    ("scheme", "names"),
    [("url", "its event is door;"), ("hmac", "its event is door;"), ("stripe", "its events are door or door.TYPE;")],
)
def test_a_new_hook_says_which_events_it_has(on_site: Cli, scheme: str, names: str) -> None:
    name = f"door-{scheme}"
    answer = on_site("hook", "create", name, "--scheme", scheme)
    assert answer.code == 0 and f"{names.replace('door', name)} the secret is not shown again" in answer.err


def test_the_list_shows_the_latest_delivery_as_people_write_times(on_site: Cli) -> None:
    assert on_site("hook", "create", "shop", "--scheme", "github").code == on_site("hook", "test", "shop").code == 0
    assert re.search(r" 20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)? [A-Z]+\s", on_site("hook", "list").out)


def test_a_secret_that_the_sender_issued_is_used(there: Site) -> None:
    pasted = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    made = hooks.create_hook(local(there), CreateHook(name="pasted", scheme="stripe", secret=f" {pasted}\n")).value
    assert made["secret"] == pasted
    hooks.delete_hook(local(there), ChangeHook(hook="pasted"))


def test_an_owner_has_a_limited_number_of_hooks(there: Site) -> None:
    call = Call(there.room.services, Caller("many"), "UTC")
    for number in range(MOST_HOOKS):
        hooks.create_hook(call, CreateHook(name=f"n{number}", scheme="url"))
    assert refused(lambda: hooks.create_hook(call, CreateHook(name="over", scheme="url"))).code == "quota"


@pytest.mark.parametrize(
    ("scheme", "headers", "data", "name"),
    [
        ("github", {"x-github-event": "pull_request"}, {"type": "x"}, "shop.pull_request"),
        ("github", {"x-github-event": "no such thing\n"}, {}, "shop"),
        ("github", {}, {}, "shop"),
        ("standard", {"x-github-event": "push"}, {"type": "user.created"}, "shop.user.created"),
        ("standard", {}, {"type": ["a"]}, "shop"),
        ("standard", {}, {"type": "x" * 60}, "shop"),
        ("stripe", {}, {"type": "charge.failed"}, "shop.charge.failed"),
        ("hmac", {"x-github-event": "push"}, {"type": "x"}, "shop"),
        ("url", {}, {"type": "~ended.1"}, "shop"),
    ],
)
def test_the_name_of_an_event(scheme: str, headers: dict[str, str], data: dict[str, Any], name: str) -> None:
    hook = HookRow("hook_1", "ada", "shop", scheme, "s", local_now(), None, "[]")
    assert event_name(hook, headers, data) == name


def local_now() -> Any:
    return 1_700_000_000_000_000


def test_a_hook_is_found_by_a_name_that_looks_like_an_id(there: Site) -> None:
    hooks.create_hook(local(there), CreateHook(name="hook_of_mine", scheme="github"))
    assert one(there, "hook_of_mine").name == "hook_of_mine"


def test_equal_refusals_are_one_row_that_displaces_nothing(there: Site) -> None:
    hook = hooks.create_hook(local(there), CreateHook(name="rows", scheme="url")).value
    wrong, other = {"status": 401, "error": "wrong"}, {"event": "rows", "event_id": 1, "duplicate": False}
    notes = [{"at": at, **note} for at, note in enumerate([wrong, wrong, other, wrong, wrong, wrong])]
    note_deliveries(there.room.services, hook["id"], notes[:4])
    note_deliveries(there.room.services, hook["id"], notes[4:])
    rows = json.loads(one(there, "rows").deliveries)
    assert [(row["at"], row.get("count", 1)) for row in rows] == [(5, 5), (2, 1)]
    assert one(there, "rows").used == 2
    assert refused(lambda: note_deliveries(there.room.services, "hook_gone", notes)).code == "not_found"
