"""One `duetime serve` with agents of every type, which many tests share; each test uses an owner of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from duetime.app import App
from tests.support.mcp import World
from tests.support.model_server import ModelServer
from tests.support.receiver import Behaviour, Receiver, Request
from tests.support.woken import PATIENCE, Installation, Plays, installation, prompts_in
from tests.support.workers import eventually

MAX_DEPTH = 2
SECRET = "a-secret-of-the-operator"
CALLING_AGENT = [sys.executable, "-P", str(Path(__file__).with_name("calling_agent.py"))]
_SETTINGS = f"""
agent = "builtin"
max_depth = {MAX_DEPTH}
[agents.frugal]
type = "builtin"
tokens_per_day = 200
[agents.thrifty]
type = "builtin"
dollars_per_day = 0.0005
[agents.caller]
command = {json.dumps(CALLING_AGENT)}
[agents.remote]
type = "webhook"
url = "HOOK"
secret = "{SECRET}"
[agents.hasty]
type = "webhook"
url = "HOOK"
secret = "{SECRET}"
timeout = 4
"""


class Agency(Installation):
    def __init__(self, there: World, app: App, plays: Plays, model: ModelServer, hooks: Receiver) -> None:
        super().__init__(there, app)
        self.plays, self._model, self._hooks = plays, model, hooks

    def thought_of(self, prompt: str) -> int:
        """Return how often the model received this stored prompt."""
        return sum(prompt in prompts_in(request) for request in self._model.requests)

    def request(self, owner: str, number: int = 1) -> Request:
        """Return the webhook request for an owner, once it has arrived."""
        eventually(lambda: len(self._sent_for(owner)) >= number, PATIENCE, f"the webhook is called for {owner}")
        return self._sent_for(owner)[number - 1]

    def agent_request(self, owner: str, number: int = 1) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.request(owner, number).body)
        return read

    def _sent_for(self, owner: str) -> list[Request]:
        return [request for request in self._hooks.requests if json.loads(request.body)["owner"] == owner]


def _at_once_or_later(request: Request) -> Behaviour:
    """Let the prompt decide how the webhook answers; `in no hurry` makes it answer slowly."""
    prompt = json.loads(request.body)["prompt"]
    delay = 0.5 if "in no hurry" in prompt else 0.0
    answer = json.dumps({"text": f"Did: {prompt}"}).encode()
    return Behaviour(202, delay=delay) if "later" in prompt else Behaviour(body=answer, delay=delay)


@contextmanager
def agency(folder: Path) -> Iterator[Agency]:
    plays = Plays()
    with ModelServer(plays) as model, Receiver(_at_once_or_later) as hooks:
        settings = _SETTINGS.replace("HOOK", hooks.url)
        with installation(folder, settings, env=model.environment) as there:
            yield Agency(there.world, there.app, plays, model, hooks)
