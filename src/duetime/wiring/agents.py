"""The agents that the settings name, each with its limits, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from duetime.core.clock import SECOND, Clock
from duetime.core.errors import InvalidInput
from duetime.core.kind import LOCAL, Caller
from duetime.core.ledger import MICRO, Used
from duetime.core.outcome import Completed, Failed, Returned
from duetime.core.policy.claiming import Claim
from duetime.core.result import Err
from duetime.core.results import encode, shorten_error
from duetime.core.scheduler import Scheduler
from duetime.core.waking import Access, Agent, Errand, Reply, run_holder
from duetime.faces.desk import Inboxes
from duetime.kinds.prompt import INBOX, PromptKind
from duetime.kinds.waking import Books, Waker, Waking
from duetime.settings import AgentSettings, Settings

if TYPE_CHECKING:
    from duetime.agents.heartbeat import DuePrompt
    from duetime.agents.webhook import Answered

BUILTIN = "builtin"
HEARTBEAT = "heartbeat"
_MOST_DUE = 20
"""Waiting prompts that one beat takes on."""

SchedulerOf = Callable[[], Scheduler]
"""The scheduler holds the kinds and these hold the agents, so that it is there only after them."""


def prompt_kind(
    settings: Settings,
    books: Books,
    clock: Clock,
    zone: str,
    access: Callable[[Claim, float, int], Access],
    scheduler_of: SchedulerOf,
) -> PromptKind:
    """Where no agent is named, none is imported: every due prompt waits in the inbox."""
    inboxes = _inboxes(settings)
    wakers = {name: _waker(name, each, settings, clock, zone) for name, each in woken_agents(settings).items()}
    if settings.heartbeat.every:
        wakers[HEARTBEAT] = _heartbeat(settings, wakers, zone, scheduler_of)
    known = (INBOX, *inboxes, *wakers)
    if settings.agent not in known:
        raise InvalidInput(
            f"agent: the settings name no {settings.agent!r}; there is {', '.join(known)}", field="agent"
        )
    waking = Waking(wakers, books, clock, zone, access, settings.prompts_per_day) if wakers else None
    return PromptKind(waking, settings.agent, inboxes)


def inboxes_of(settings: Settings) -> Inboxes:
    """What faces say of a prompt that no agent is woken for; a beat takes what waits in the inbox itself."""
    return Inboxes(frozenset((INBOX, *_inboxes(settings))), LOCAL if settings.heartbeat.every else None)


def _inboxes(settings: Settings) -> tuple[str, ...]:
    return tuple(name for name, each in settings.agents.items() if each.type == INBOX)


def woken_agents(settings: Settings) -> Mapping[str, AgentSettings]:
    """The built-in one needs no table of its own where there is a model for it."""
    named = {name: each for name, each in settings.agents.items() if each.type != INBOX}
    if settings.model or (settings.heartbeat.every and not settings.heartbeat.agent) or settings.agent == BUILTIN:
        named.setdefault(BUILTIN, AgentSettings(type=BUILTIN))
    return named


def _waker(name: str, given: AgentSettings, settings: Settings, clock: Clock, zone: str) -> Waker:
    limit = Used(given.runs_per_day, given.tokens_per_day, round(given.dollars_per_day * MICRO))
    return Waker(_agent(name, given, settings, clock, zone), given.timeout, limit)


def _agent(name: str, given: AgentSettings, settings: Settings, clock: Clock, zone: str) -> Agent:
    type_ = given.type or ("command" if given.preset or given.command else "")
    if type_ == "command":
        from duetime.agents.command import CommandAgent

        return CommandAgent(
            name,
            command=given.command,
            preset=given.preset,
            prompt=given.prompt,
            env=given.env,
            folder=given.folder,
            model=given.model,
        )
    if type_ == BUILTIN:
        from duetime.agents.builtin import BuiltinAgent

        return BuiltinAgent(given.model or settings.model, clock, zone, instructions=given.instructions)
    if type_ == "webhook":
        return _webhook(name, given, settings, clock)
    types = f"command, {BUILTIN}, webhook or {INBOX}"
    raise InvalidInput(f"agents.{name}: type must be {types}; or name a preset", field="agents")


def _webhook(name: str, given: AgentSettings, settings: Settings, clock: Clock) -> Agent:
    from duetime.agents.webhook import Answered, Unanswered, WebhookAgent
    from duetime.delivery.http import Call, CallFailed, Http

    http = Http(clock, None, connections=settings.threads)

    def send(method: str, url: str, headers: Mapping[str, str], body: bytes, patience: float) -> Answered:
        try:
            answer = http.send(Call(method, url, headers, body, patience))
        except CallFailed as failed:
            raise Unanswered(failed.reason, permanent=failed.permanent) from failed
        return Answered(answer.status, answer.headers, answer.body)

    return WebhookAgent(name, given.url, given.secret, send, clock, close=http.close)


# -- the heartbeat ------------------------------------------------------------------------------------------------


def _heartbeat(settings: Settings, wakers: Mapping[str, Waker], zone: str, scheduler_of: SchedulerOf) -> Waker:
    from duetime.agents.heartbeat import HeartbeatAgent

    given = settings.heartbeat
    name = given.agent or BUILTIN
    if name not in wakers:
        raise InvalidInput(f"heartbeat.agent: the settings name no agent {name!r} that can be woken", field="heartbeat")
    inner = wakers[name]
    waiting = WaitingPrompts(scheduler_of)
    instructions = Path(given.instructions).expanduser()
    agent = HeartbeatAgent(inner.agent, instructions, LOCAL, zone, waiting.take, waiting.finish)
    return Waker(agent, inner.patience, Used(runs=given.runs_per_day), {name: inner.limit})


class WaitingPrompts:
    """What waits in the inbox, taken by a beat in the name of its own run."""

    def __init__(self, scheduler_of: SchedulerOf) -> None:
        self._scheduler_of = scheduler_of
        self._holders: dict[int, Caller] = {}

    def take(self, errand: Errand) -> Sequence[DuePrompt]:
        from duetime.agents.heartbeat import DuePrompt

        caller = Caller(errand.owner, holder=run_holder(errand.run, 0))
        lease = int((errand.patience + 60) * SECOND)
        due: list[DuePrompt] = []
        while len(due) < _MOST_DUE:
            taken = self._scheduler_of().take(caller, PromptKind.name, INBOX, lease)
            if isinstance(taken, Err) or taken.value is None:
                break
            run, definition, _ = taken.value
            self._holders[run.id] = caller
            text = PromptKind.text_of(definition)
            due.append(
                DuePrompt(definition.id, run.id, definition.owner, text, run.due, definition.written, definition.depth)
            )
        return due

    def finish(self, due: DuePrompt, reply: Reply | None) -> None:
        """One of which nothing came goes back to where it waited."""
        caller = self._holders.pop(due.run)
        outcome: Completed | Failed | Returned = Returned("the heartbeat did not come to it")
        if reply is not None and reply.error is None:
            outcome = Completed(encode({"text": reply.text, "agent": HEARTBEAT}))
        elif reply is not None and reply.error is not None:
            outcome = Failed(shorten_error(reply.error))
        self._scheduler_of().finish(caller, due.run, outcome, PromptKind.name)
