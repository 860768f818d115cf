"""A real `duetime serve` with settings of its own, and what became of what its agents were woken for.

    plays = Plays({"Plan my day.": [call("schedule", …), say("Planned.")]})       # what the model does for this prompt
    with ModelServer(plays) as model, installation(folder, 'agent = "builtin"', env=model.environment) as there:
        with there.agent("ada") as ada:
            task = ada.knows("schedule", prompt="Plan my day.", at="now")["id"]
        run = there.ended(task)

A test that ends the server itself says `survives=False`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import start_blocking_portal

from duetime.app import App, build
from duetime.engine.clock import HOUR, SystemClock, datetime_of
from duetime.engine.model import LIVE, Run, RunStatus, Schedule, ScheduleId
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.kinds.prompts.agents.models import EXAMPLE
from duetime.service.presenters import message_shape
from duetime.settings import load_settings
from tests.support.agents import serving
from tests.support.mcp import World
from tests.support.model_server import Request, Step, say
from tests.support.settings import open_to_all, write_trusted
from tests.support.workers import eventually

PATIENCE = 60.0
"""Seconds to wait for what a model or a program is woken for: on a busy machine, the libraries of the models alone take
the first of them half a minute to load."""
_FRAMED = re.compile(r"^\[([0-9a-f]{16}) begins\]\n(.*?)\n\[\1 ends\]$", re.MULTILINE | re.DOTALL)


def noon_zone() -> str:
    """Return a zone in which it is about noon, so that daily counts are not split by midnight during a test."""
    return f"Etc/GMT{datetime_of(SystemClock().now()).hour - 12:+d}"


def prompts_in(request: Request) -> list[str]:
    """Return the stored texts with which an agent was woken."""
    return [text for _, text in _FRAMED.findall(request.said[0])]


class Plays(dict[str, Sequence[Step]]):
    """What the model does for each stored prompt; for any other prompt, it says that it is done."""

    def __call__(self, request: Request) -> Step:
        steps = next((self[text] for text in prompts_in(request) if text in self), ())
        done = len(request.turns)
        return steps[done] if done < len(steps) else say("Done.")


class Records:
    """A store as a test sees it, while others work on it."""

    def __init__(self, app: App) -> None:
        self.app = app

    def prompts(self, owner: str) -> dict[str, Schedule]:
        """Return the prompts by their text."""
        found = self.app.store.search(ScheduleQuery(owner=owner, kind="prompt")).items
        return {json.loads(each.definition.payload)["prompt"]: each for each in found}

    def runs(self, **query: Any) -> list[Run]:
        """Return the runs, oldest first."""
        return sorted(self.app.store.runs(RunQuery(**query)).items, key=lambda run: run.id)

    def run_of(self, task: int, *statuses: str, seconds: float = PATIENCE) -> Run:
        """Return the latest run of a task, once it has this status."""

        def standing() -> list[Run]:
            return [run for run in self.runs(schedule=ScheduleId(task))[-1:] if run.status in statuses]

        [run] = eventually(standing, seconds, f"a run of task {task} is {', '.join(statuses)}")
        return run

    def ended(self, task: int) -> Run:
        return self.run_of(task, *(each for each in RunStatus if each not in LIVE))

    def arrived(self, owner: str, topic: str, count: int = 1, words: str = "") -> list[dict[str, Any]]:
        """Return exactly this many messages in an owner's inbox that contain these words, oldest first."""

        def messages() -> list[dict[str, Any]]:
            runs = self.runs(owner=owner, kind="notification", status="completed", subject=topic)
            return [each for each in (message_shape(run, "UTC") for run in runs) if words in each["message"]]

        eventually(lambda: len(messages()) >= count, PATIENCE, f"{count} messages for {owner} on {topic}")
        assert len(messages()) == count, messages()
        return messages()


class Installation(Records):
    """A server and its store."""

    def __init__(self, there: World, app: App) -> None:
        super().__init__(app)
        self.world, self.agent, self.token = there, there.agent, there.token

    def api(self, token: str, path: str, **body: Any) -> httpx2.Response:
        """Make a GET request, or a POST if there is a body."""
        url = self.world.served.url.removesuffix("/mcp") + f"/api/v1{path}"
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.request("POST" if body else "GET", url, headers=headers, json=body or None, timeout=PATIENCE)

    def run_token(self, run: Run, fence: int | None = None) -> str:
        """Return the token that the agent of a run was given; with a fence, that of an earlier attempt."""
        return self.world.tokens.for_run(
            run.owner, run.id, run.fence if fence is None else fence, 1, HOUR, "Europe/Berlin"
        )


def result_of(run: Run) -> dict[str, Any]:
    kept = json.loads(run.result or "null")
    assert isinstance(kept, dict), run
    return kept


@contextmanager
def installation(
    folder: Path, settings: str, env: Mapping[str, str] | None = None, *, survives: bool = True
) -> Iterator[Installation]:
    write_settings(folder, settings)
    with start_blocking_portal() as portal, serving(folder, "--no-link", env=env) as served, opened(folder) as app:
        yield Installation(World(served, portal), app)
        assert (served.process.poll() is None) == survives, "the server has died, or should have"


def write_settings(folder: Path, settings: str) -> None:
    write_trusted(folder, f'timezone = "{noon_zone()}"\nmodel = "{EXAMPLE}"\n{open_to_all(settings)}')


@contextmanager
def opened(folder: Path) -> Iterator[App]:
    """Open the store of a server, beside it or after it, with the same settings."""
    app = build(load_settings({"db": str(folder / "my.db")}, environment={}, folder=folder), tasks=False)
    try:
        yield app
    finally:
        app.close()
