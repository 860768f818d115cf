"""Whoever creates, edits, starts or retries something is stored with it, whatever the interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.actor import Actor, actor_from
from duetime.engine.clock import HOUR, MINUTE
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run, RunId, RunStatus
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.rows import Writes
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.engine.validation import Changes, NewSchedule
from duetime.http.auth import caller_of
from duetime.service.operations.inbox import HandOver, hand_over
from duetime.service.services import Call
from duetime.settings import AgentSettings
from tests.support.browsing import signed_in_as
from tests.support.cli import Cli
from tests.support.interfaces import CRON, PAYLOADS, CommandLine, Dashboard, Http, Interface, Python
from tests.support.web import INITIALIZE, Site, site

pytestmark = pytest.mark.filterwarnings("ignore:nothing fires yet")
BY_RUN = Caller(LOCAL, depth=1, actor=Actor("run", "7", "mcp"))
BY_ADA = Caller(LOCAL, actor=Actor("person", "ada", "dashboard"))
OTHERS: dict[str, tuple[type[Interface], Actor]] = {
    "cli": (CommandLine, Actor("person", LOCAL, "cli")),
    "dashboard": (Dashboard, Actor("person", LOCAL, "dashboard")),
    "rest": (Http, Actor("token", LOCAL, "rest")),
}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(
        tmp_path_factory.mktemp("site"), agents={"scribe": AgentSettings(type="command", command=("cat",))}
    ) as made:
        yield made


@pytest.fixture
def on_site(cli: Cli, there: Site, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(Path(there.room.settings.db).parent)
    return lambda *arguments: cli(*arguments, "--db", there.room.settings.db)


def newest(there: Site) -> str:
    page = there.room.store.search(ScheduleQuery(newest_first=True, limit=1))
    return page.items[0].definition.public_id


def author_of(there: Site, id: str) -> Actor:
    schedule = there.room.store.find(id)
    assert schedule is not None
    return actor_from(schedule.definition.author)


def make(there: Site, kind: str = "prompt", by: Caller = BY_RUN) -> str:
    made = there.room.scheduler.create(by, NewSchedule(kind, "same", "cron", {"expression": CRON}, PAYLOADS[kind]))
    return made.definition.public_id


def failed_run(there: Site, id: str) -> RunId:
    run = there.room.scheduler.run_now(Caller(LOCAL), id)
    now = there.room.clock.now()

    def decide(change: Change, run: Run) -> Decision[Any]:
        progress = change.schedule.progress
        broken = run._replace(status=RunStatus.FAILED, finished=now, error="it broke")
        rows = {progress.schedule: progress._replace(active=0)}
        return Writes(runs={run.id: broken}, progress=rows, due_gone_of=[progress.schedule]), None

    there.room.store.change_run(run.id, now, decide)
    return run.id


def check(there: Site, by: Interface, actor: Actor) -> None:
    by.create("prompt")
    assert author_of(there, newest(there)) == actor
    id = make(there)
    by.edit("prompt", id)
    assert author_of(there, id) == actor, "the text is another one"

    by.run_now("prompt", make(there))
    [run] = there.room.store.runs(RunQuery(limit=1)).items
    assert actor_from(there.room.store.run_input(run.id).actor) == actor

    failed = failed_run(there, make(there))
    by.retry("prompt", failed)
    [attempt] = there.room.store.attempts(failed)
    assert actor_from(attempt.actor) == actor
    assert attempt.retried is not None and attempt.retried > there.room.clock.now() - MINUTE


@pytest.mark.parametrize("interface", OTHERS)
def test_every_interface_says_who_calls(there: Site, on_site: Cli, interface: str) -> None:
    type_, actor = OTHERS[interface]
    check(there, type_(there, on_site), actor)


def test_the_python_api_names_the_module(there: Site, on_site: Cli) -> None:
    by = Python(there, on_site)
    by.create("prompt")
    author = author_of(there, newest(there))
    assert (author.type, author.interface) == ("module", "python")
    check(there, by, author)


def test_a_person_in_a_browser_has_the_name_of_the_token(there: Site) -> None:
    browser = signed_in_as(there, "ada", owner=LOCAL)
    form = {"kind": "prompt", "when": "cron", "expression": CRON, "timezone": "UTC", **PAYLOADS["prompt"]}
    assert browser.send("/new", form).status == 303
    assert author_of(there, newest(there)) == Actor("person", "ada", "dashboard")


def test_an_agent_over_mcp_is_its_token_or_its_run(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(there.tokens, "is_under_way", lambda run, fence: True)
    token = there.tokens.for_run(LOCAL, 4711, 1, 1, HOUR, "UTC")
    runs_own = {"Authorization": f"Bearer {token}"}
    for headers, actor in (
        (there.bearer(LOCAL), Actor("token", LOCAL, "mcp")),
        (runs_own, Actor("run", "4711", "mcp")),
    ):
        arguments = {"prompt": "water the plants", "cron": CRON}
        session = {"Mcp-Session-Id": there.post(INITIALIZE, headers).headers["mcp-session-id"]}
        params = {"name": "schedule", "arguments": arguments}
        reply = there.post(
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}, {**headers, **session}
        )
        assert reply.status == 200, reply.body
        assert author_of(there, newest(there)) == actor, reply.body


def test_the_api_of_qstash_says_who_calls(there: Site) -> None:
    headers = {**there.bearer("grace"), "Upstash-Delay": "1h"}
    reply = there.ask("POST", "/v2/publish/https://hooks.example.org/a", headers, b"{}")
    assert reply.status < 300, reply.body
    assert author_of(there, newest(there)) == Actor("token", "grace", "qstash-api")


def test_a_token_of_a_run_that_no_run_has_is_an_agents_as_well(there: Site) -> None:
    grant = there.tokens.verify(there.tokens.issue("deep", HOUR, depth=1))
    assert caller_of(grant, "rest").actor == Actor("run", "deep", "rest")


def test_the_author_changes_with_the_text_alone(there: Site) -> None:
    scheduler, id = there.room.scheduler, make(there)
    for changes in (
        Changes(name="another"),
        Changes(payload={**PAYLOADS["prompt"], "max_runs_per_day": 5}),
        Changes(policy={"max_attempts": 2}),
    ):
        scheduler.edit(BY_ADA, id, changes)
        assert author_of(there, id) == BY_RUN.actor, "a person who edits a limit did not write the text"
    scheduler.edit(BY_ADA, id, Changes(payload={"prompt": "water the roses"}))
    assert author_of(there, id) == BY_ADA.actor


def test_who_hands_a_prompt_over_did_not_write_it(there: Site) -> None:
    scheduler, id = there.room.scheduler, make(there)
    run = scheduler.run_with(BY_RUN, scheduler.find(BY_RUN, id), {"prompt": "another"})  # type: ignore[arg-type]
    now = there.room.clock.now()

    def wait(change: Change, seen: Run) -> Decision[Any]:
        return Writes(runs={seen.id: seen._replace(status=RunStatus.WAITING)}), None

    there.room.store.change_run(run.id, now, wait)
    hand_over(Call(there.room.services, BY_ADA, "UTC"), HandOver(run=run.id, agent="scribe"))
    assert author_of(there, id) == BY_RUN.actor
    own = there.room.store.run_input(run.id)
    assert (json.loads(own.payload or "")["agent"], actor_from(own.actor)) == ("scribe", BY_RUN.actor)


def test_exports_and_imports_carry_the_author(there: Site, on_site: Cli, tmp_path: Path, cli: Cli) -> None:
    make(there)
    file, other = tmp_path / "out.jsonl", str(tmp_path / "other.db")
    assert on_site("export", "-o", str(file)).code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert "run/mcp/7" in {each["author"] for each in lines}
    lines = [each for each in lines if "agent" not in each["payload"]]  # the other store does not know the agent
    file.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    done = cli("import", "jsonl", str(file), "--yes", "--db", other)
    assert done.code == 0, done.out + done.err
    assert cli("export", "-o", str(tmp_path / "again.jsonl"), "--db", other).code == 0
    again = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert sorted(str(each["author"]) for each in again) == sorted(str(each["author"]) for each in lines)
