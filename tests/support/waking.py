"""Requests for agents, made by a test instead of a worker, and checks of their replies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duetime.engine.clock import Instant, SystemClock
from duetime.engine.kind import StopSignal
from duetime.engine.model import NOTHING
from duetime.engine.outcome import Outcome
from duetime.kinds.prompts.agent import Access, AgentReply, AgentRequest, Roster
from duetime.kinds.prompts.kind import PromptKind
from duetime.kinds.prompts.runner import Waking
from duetime.settings.sections import INBOX
from duetime.stores.sqlite.store import MEMORY, SqliteStore
from tests.support.cli import environment

NOWHERE = Access("http://127.0.0.1:9/mcp", "a-token-that-opens-nothing")


def agent_request(access: Access = NOWHERE, prompt: str = "Water the plants.", **more: Any) -> AgentRequest:
    now = SystemClock().now()
    usual: dict[str, Any] = {
        "run": 7,
        "fence": 1,
        "task": 12,
        "owner": "local",
        "prompt": prompt,
        "text": f"[begins]\n{prompt}\n[ends]\n",
        "stored": Instant(now - 60_000_000),
        "due": now,
        "depth": 1,
        "patience": 60.0,
        "access": access,
        "stop": StopSignal(),
        "report": lambda text: None,
        "deeper": lambda depth, allowed: access._replace(token=f"{access.token}-{depth}"),
    }
    return AgentRequest(**{**usual, **more})


def prompts_for_nobody(default: str = INBOX, inboxes: Sequence[str] = ()) -> PromptKind:
    """Build a prompt kind for settings that name no agent."""
    limits = dict.fromkeys(inboxes, NOTHING)
    waking = Waking({}, SqliteStore(MEMORY), SystemClock(), "UTC", lambda *_: NOWHERE, inboxes=limits)
    return PromptKind(waking, Roster(default, {}))


def over_stdio(folder: Path, *arguments: str) -> Access:
    own = environment() | {"XDG_DATA_HOME": str(folder / "data"), "DUETIME_DB": str(folder / "my.db")}
    return Access(None, "", [sys.executable, "-m", "duetime", "mcp", *arguments], own)


def replied(answer: AgentReply | Outcome) -> AgentReply:
    assert isinstance(answer, AgentReply), answer
    return answer


def succeeded(answer: AgentReply | Outcome) -> AgentReply:
    reply = replied(answer)
    assert reply.error is None, reply
    return reply


def failed(answer: AgentReply | Outcome) -> str:
    reply = replied(answer)
    assert reply.error is not None, reply
    return reply.error
