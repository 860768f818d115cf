"""What the containers do, as processes: the command of the Dockerfile with the environment of compose.yaml, two nodes
on one PostgreSQL, and one of them is killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import yaml

from tests.support.cli import ROOT, Output, environment
from tests.support.workers import eventually

SECRET = "a secret for all nodes of this installation, at least 64 bytes long"
TASKS = """
import glob, os, time
from duetime import task

@task
def tick() -> str:
    return os.environ["NODE"]

@task
def slow() -> str:
    own = os.path.dirname(__file__)
    if not glob.glob(f"{own}/../*/begun"):
        open(f"{own}/begun", "w").close()
        time.sleep(600)  # until its node is killed
    return os.environ["NODE"]
"""
FILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")


def _instruction(name: str) -> list[str]:
    return re.findall(rf"^{name}\s+(.+)$", FILE, re.MULTILINE)


def image_environment() -> dict[str, str]:
    last = _instruction("ENV")[-1]
    return dict(part.split("=", 1) for part in shlex.split(last))


def health_check() -> list[str]:
    [line] = _instruction("HEALTHCHECK")
    command: list[str] = json.loads(line[line.index("CMD") + 3 :])
    return [sys.executable, *command[1:]]


class Node(NamedTuple):
    name: str
    process: subprocess.Popen[str]
    output: Output
    env: dict[str, str]
    folder: Path
    url: str

    def ask(self, method: str, path: str, token: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx2.request(method, self.url + path, headers=headers, timeout=20, **more)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def healthy(self) -> bool:
        env = self.env | {"DUETIME_PORT": self.url.rpartition(":")[2]}
        done = subprocess.run(health_check(), env=env, capture_output=True, timeout=20, check=False)
        return done.returncode == 0


def _start(stack: ExitStack, folder: Path, name: str, db: str) -> Node:
    """Start a node with the folder in place of /data, on this machine's addresses."""
    data = folder / name
    data.mkdir()
    (data / "mine.py").write_text(TASKS)
    told = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"][name]
    assert told["environment"]["DUETIME_DB"].endswith("@database/duetime")
    given = {key: value.replace("/data", str(data)) for key, value in image_environment().items() if key != "PATH"}
    given |= dict.fromkeys(told["environment"], "") | {"DUETIME_DB": db, "DUETIME_SECRET": SECRET}
    assert given["DUETIME_HOST"] == "0.0.0.0" and given["XDG_DATA_HOME"] == str(data)  # noqa: S104 - compared
    given |= {
        "DUETIME_HOST": "127.0.0.1",
        "DUETIME_PORT": "0",
        "DUETIME_TASKS": str(data / "mine.py"),
        "DUETIME_LEASE": "2",
    }
    env = environment() | given | {"NODE": name}
    [entry], [command] = _instruction("ENTRYPOINT"), _instruction("CMD")
    assert json.loads(entry) == ["duetime"]
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", "duetime", *json.loads(command)], cwd=data, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
    )  # fmt: skip
    stack.callback(_end, process)
    output = Output(process)
    line = output.until(lambda line: line.startswith("Serving MCP at "))
    return Node(name, process, output, env, data, line.split()[3].removesuffix(",").removesuffix("/mcp"))


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(30)


@pytest.fixture
def nodes(clean_postgres_url: str, tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    with ExitStack() as stack:
        names = ("node-a", "node-b")
        first, second = (_start(stack, tmp_path, name, clean_postgres_url) for name in names)
        yield first, second


def _issued(node: Node) -> str:
    command = ["token", "issue", "--email", "ada@example.org", "--scope", "operator", "--json"]
    made = subprocess.run(
        [sys.executable, "-m", "duetime", *command],
        cwd=node.folder, env=node.env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return str(json.loads(made.stdout)["token"])


def test_the_other_node_goes_on_when_one_is_killed(nodes: tuple[Node, Node]) -> None:
    killed, left = nodes
    assert killed.healthy() and left.healthy()
    token = _issued(killed)

    def create(task: str, when: str) -> str:
        body = {"kind": "job", "name": task, "payload": {"task": task}, "when": when}
        return str(left.ask("POST", "/api/v1/schedules", token, json=body)["id"])

    tick, slow = create("tick", "every second"), create("slow", "in 2 seconds")
    holder: list[Node] = []

    def begun() -> bool:
        holder[:] = [node for node in nodes if (node.folder / "begun").exists()]
        return bool(holder)

    eventually(begun, 20, "the slow job is running")
    [killed] = holder
    left = next(node for node in nodes if node is not killed)
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait(30)
    assert not killed.healthy()

    def ended(id_: str) -> list[dict[str, Any]]:
        answer = left.ask("GET", f"/api/v1/schedules/{id_}/runs?limit=200", token)
        return [run for run in answer["runs"] if run["status"] == "completed"]

    eventually(lambda: bool(ended(slow)), 30, "the other node runs it again")
    before = len(ended(tick))
    eventually(lambda: len(ended(tick)) >= before + 2, 20, "it goes on by the second")
    assert ended(slow)[0]["result"] == left.name
    metrics = httpx2.get(f"{left.url}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=20).text
    for name in ("workers", "queue_depth", "runs_ended_total", "lateness_seconds"):
        assert f"duetime_{name}" in metrics
    left.process.send_signal(signal.SIGTERM)
    assert left.process.wait(30) == 0
