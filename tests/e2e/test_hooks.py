"""A push, as GitHub sends it, wakes an agent that is a program, and its end starts a job: with real processes, and with
the server killed at each step between the delivery and the message about the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from duetime.app import open_store
from duetime.engine.clock import HOUR, Instant, SystemClock
from duetime.engine.model import ENDED, RunStatus
from duetime.engine.store import RunQuery
from tests.support.cli import ROOT, Output, environment, start
from tests.support.settings import write_trusted
from tests.support.webhooks import sign
from tests.support.workers import eventually

STEPS = ("emit", "expand", "claim", "record")
DEATHS = [*(f"{side} {step}" for step in STEPS for side in ("before", "after")), "while the agent works"]
PATIENCE = 60.0
AGENT = """
import os, signal, sys, pathlib
folder = pathlib.Path(sys.argv[1])
text = sys.stdin.read() + " ".join(sys.argv[2:])
with (folder / "woken").open("a", encoding="utf-8") as file:
    file.write(text + "\\n---\\n")
if (folder / "plan").exists() and (folder / "plan").read_text() == "while the agent works":
    (folder / "plan").unlink()
    os.kill(int((folder / "server").read_text()), signal.SIGKILL)
print("Reviewed.")
"""
DYING = '''
"""Lets the server die before or after the commit of a step; a process that is no server has no plan. A step that is
named with what it is about, such as `claim job`, is only the one about that."""
import os, pathlib, signal, sys, threading, time
from contextlib import contextmanager

folder = pathlib.Path(__file__).parent
plan = folder / "plan"
if plan.exists() and "serve" in sys.argv:
    side, _, step = plan.read_text().partition(" ")
    from duetime.stores import base
    from duetime.stores.postgres.store import PostgresStore
    from duetime.stores.sqlite.store import SqliteStore

    under_way = threading.local()

    def die():
        if step != "emit":  # the sender has its answer by then: it is sent at the same time
            deadline = time.monotonic() + 30
            while not (folder / "answered").exists() and time.monotonic() < deadline:
                time.sleep(0.005)
        plan.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

    def within(steps_of):
        def decorate(function):
            def call(self, *arguments, **options):
                under_way.steps = set(steps_of(arguments))
                try:
                    return function(self, *arguments, **options)
                finally:
                    under_way.steps = set()
            return call
        return decorate

    def take(*arguments):
        claims = original_take(*arguments)
        under_way.steps |= {f"claim {claim.definition.kind}" for claim in claims[0]}
        return claims

    original_take, base.take = base.take, take

    def expand(self, tx, now, pairs, *arguments):
        under_way.steps = {f"expand {event.name}" for event, _ in pairs}
        return original_decide(self, tx, now, pairs, *arguments)

    original_decide, base.BaseStore._decide = base.BaseStore._decide, expand

    def tell(self, incidents, now):
        under_way.steps = {f"tell {incident.trouble}" for incident in incidents}
        return original_messages(self, incidents, now)

    original_messages, base.BaseStore._messages = base.BaseStore._messages, tell
    base.BaseStore.tell_incidents = within(lambda arguments: ())(base.BaseStore.tell_incidents)
    base.BaseStore.expand_events = within(lambda arguments: ())(base.BaseStore.expand_events)
    base.BaseStore._emit_together = within(lambda arguments: ["emit"])(base.BaseStore._emit_together)
    base.BaseStore.record_and_claim = within(
        lambda arguments: [f"record {arguments[4][item.run].definition.kind}" for item in arguments[2]]
    )(base.BaseStore.record_and_claim)

    def deadly(write):
        @contextmanager
        def wrapped(self):
            with write(self) as tx:
                yield tx
                is_meant = any(each.startswith(step) for each in getattr(under_way, "steps", ()))
                if is_meant and side == "before":
                    if burst := getattr(tx, "_burst", None):
                        burst()
                    die()
            if is_meant:
                die()
        return wrapped

    for store in (SqliteStore, PostgresStore):
        store._write = deadly(store._write)
'''
TASKS = """
from duetime import task

@task
def publish(text):
    raise RuntimeError(f"no printer for {text}")
"""
PUSH = {
    "ref": "refs/heads/main",
    "before": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
    "after": "59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5",
    "repository": {"id": 186853002, "full_name": "octo-org/octo-repo", "pushed_at": 1_700_000_000, "private": False},
    "pusher": {"name": "octocat", "email": "octocat@example.org"},
    "commits": [{"id": "59b20b8d", "message": "Mend the roof. Grüße! \\u0007", "modified": ["roof.md"]}],
    "head_commit": {"message": "Mend the roof."},
}


class Hooked(NamedTuple):
    """A folder with a store, an agent, a hook and a prompt that waits for pushes to the main branch."""

    folder: Path
    db: str
    hook: str
    secret: str
    schedule: int

    def commit(self, number: int = 1) -> bytes:
        return json.dumps({**PUSH, "after": f"{number:040x}"}, ensure_ascii=False).encode()

    def deliver(self, port: int, body: bytes) -> tuple[int, Any]:
        """Send a delivery as GitHub does. Return its status, or 0 if there was no answer."""
        headers = sign("github", self.secret, "", body, SystemClock().now())
        headers |= {
            "User-Agent": "GitHub-Hookshot/044aadd",
            "Content-Type": "application/json",
            "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
            "X-GitHub-Hook-ID": "292430182",
        }
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("POST", f"/hooks/{self.hook}", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, HTTPException, ValueError):
            return 0, None
        finally:
            connection.close()

    @contextmanager
    def serving(self) -> Iterator[tuple[subprocess.Popen[str], int]]:
        path = {"PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT / 'src'}"}
        with start("serve", "--port", "0", "--db", self.db, folder=self.folder, env=path) as process:
            try:
                line = Output(process, PATIENCE).until(lambda line: line.startswith("Serving MCP at "))
                (self.folder / "server").write_text(str(process.pid))
                yield process, urlsplit(line.split()[3].rstrip(",")).port or 0
            finally:
                if process.poll() is None:
                    process.kill()

    def runs(self, kind: str | None = None) -> list[Any]:
        with closing(open_store(self.db)) as store:
            return list(store.runs(RunQuery(kind=kind, limit=100)).items)

    def tell_later(self) -> int:
        """Tell what has not been told, as a worker does an hour later. Return the number of messages."""
        with closing(open_store(self.db)) as store:
            return store.tell_incidents(Instant(SystemClock().now() + HOUR))

    def ended(self) -> list[Any]:
        def all_ended() -> list[Any]:
            runs = self.runs()
            return runs if runs and all(run.status == RunStatus.COMPLETED for run in runs) else []

        return eventually(all_ended, PATIENCE, f"the agent has done its work: {self.runs()}")


def command(folder: Path, *words: str) -> Any:
    env = environment() | {"XDG_DATA_HOME": str(folder / "data")}
    line = [sys.executable, "-m", "duetime", *words, "--json"]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


@pytest.fixture(params=["sqlite", "postgres"])
def hooked(request: pytest.FixtureRequest, tmp_path: Path) -> Hooked:
    db = str(tmp_path / "my.db") if request.param == "sqlite" else request.getfixturevalue("clean_postgres_url")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "sitecustomize.py").write_text(DYING)
    agent = [sys.executable, str(tmp_path / "agent.py"), str(tmp_path)]
    (tmp_path / "chores.py").write_text(TASKS)
    tasks = json.dumps([str(tmp_path / "chores.py")])
    write_trusted(tmp_path, f"lease = 1\ntasks = {tasks}\n[agents.scribe]\ncommand = {json.dumps(agent)}\n")
    store = open_store(db)
    store.migrate()
    store.close()
    hook = command(tmp_path, "hook", "create", "github", "--scheme", "github", "--db", db)
    when = "on github.push where ref = refs/heads/main"
    words = ("prompt", "add", "Review the push.", "--agent", "scribe", "--when", when, "--db", db)
    prompt = command(tmp_path, *words)
    return Hooked(tmp_path, db, hook["id"], hook["secret"], int(prompt["id"]))


def test_a_push_wakes_an_agent_and_nothing_else_does(hooked: Hooked) -> None:
    other = json.dumps({**PUSH, "ref": "refs/heads/idea"}).encode()
    with hooked.serving() as (_, port):
        status, first = hooked.deliver(port, hooked.commit())
        assert (status, first["duplicate"]) == (202, False)
        [run] = hooked.ended()
        assert run.cause == f"event:{first['event_id']}"
        for _ in range(3):
            assert hooked.deliver(port, hooked.commit()) == (202, {"event_id": first["event_id"], "duplicate": True})
        assert hooked.deliver(port, other)[0] == 202
        assert hooked.deliver(port, hooked.commit(2))[1]["duplicate"] is False
        eventually(lambda: len(hooked.ended()) == 2, PATIENCE, "the second push wakes it, too")
    [once, again, rest] = (hooked.folder / "woken").read_text(encoding="utf-8").split("\n---\n")
    assert rest == "" and f"{1:040x}" in once and f"{2:040x}" in again
    assert "Review the push." in once and "Mend the roof. Grüße!" in once and "refs/heads/idea" not in once + again


@pytest.mark.parametrize("death", DEATHS)
def test_a_push_wakes_the_agent_although_the_server_is_killed(hooked: Hooked, death: str) -> None:
    (hooked.folder / "plan").write_text(death)
    with hooked.serving() as (process, port):
        status, answer = hooked.deliver(port, hooked.commit())
        (hooked.folder / "answered").touch()
        assert process.wait(PATIENCE) == -signal.SIGKILL, "it died as planned"
    acknowledged = status == 202
    assert acknowledged == ("emit" not in death) or death.startswith("after"), death
    with hooked.serving() as (_, port):
        if acknowledged:  # it is not lost, although nobody sends it again
            [run] = hooked.ended()
            assert run.cause == f"event:{answer['event_id']}"
        again, repeated = hooked.deliver(port, hooked.commit())
        assert again == 202 and repeated["duplicate"] == (death != "before emit")
        [run] = hooked.ended()
    assert (run.schedule, run.cause) == (hooked.schedule, f"event:{repeated['event_id']}")
    woken = (hooked.folder / "woken").read_text(encoding="utf-8").count("\n---\n")
    assert woken == 1 if "emit" in death or "expand" in death or death == "before claim" else woken in (1, 2)


CHAIN_STEPS = ("record prompt", f"expand {ENDED}", "claim job", "record job", "tell failed", "record notification")
CHAIN_DEATHS = ["", *(f"{side} {step}" for step in CHAIN_STEPS for side in ("before", "after"))]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("death", CHAIN_DEATHS)
def test_the_end_of_the_agent_starts_a_job_whose_failure_is_told_once(hooked: Hooked, death: str) -> None:
    after = f"{hooked.schedule} succeeds"
    words = ("job", "add", "publish", "--task", "publish", "--arg", "{text}", "--after", after, "--max-attempts", "1")
    job = command(hooked.folder, *words, "--db", hooked.db)
    if death:
        (hooked.folder / "plan").write_text(death)
    with hooked.serving() as (process, port):
        assert hooked.deliver(port, hooked.commit())[0] == 202
        (hooked.folder / "answered").touch()
        if death:
            assert process.wait(PATIENCE) == -signal.SIGKILL, "it died as planned"
        else:
            _wait_until_told(hooked)
    if death:
        with hooked.serving():
            _wait_until_told(hooked)
    [review] = hooked.runs("prompt")
    [failed] = hooked.runs("job")
    [told] = hooked.runs("notification")
    assert (review.schedule, review.status) == (hooked.schedule, RunStatus.COMPLETED)
    assert (failed.name, failed.status) == (job["name"], RunStatus.FAILED)
    assert failed.error == "RuntimeError: no printer for Reviewed."
    assert told.status == RunStatus.COMPLETED and failed.error in json.loads(told.result)["message"]
    assert hooked.tell_later() == 0, "it is not told again"


def _wait_until_told(hooked: Hooked) -> None:
    def is_told() -> bool:
        return any(run.status == RunStatus.COMPLETED for run in hooked.runs("notification"))

    eventually(is_told, PATIENCE, f"the failure is told: {hooked.runs()}")
