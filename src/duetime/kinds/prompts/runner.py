"""Runs a due prompt: checks its limits, wakes its agent, and turns the reply into an outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from functools import partial
from types import MappingProxyType
from typing import Protocol

from duetime.engine.clock import SECOND, Clock, Instant, datetime_of, instant_of
from duetime.engine.encoding import shorten_error
from duetime.engine.errors import InvalidInput, StoreUnavailable, StoreUnusable
from duetime.engine.kind import StopReason, Work
from duetime.engine.model import Definition, run_holder
from duetime.engine.outcome import Alert, Cancelled, Completed, Failed, Outcome, Returned, Waiting
from duetime.engine.policy.claim import Claim
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import trigger_from_json
from duetime.engine.usage import MICRO, NOTHING, Cap, Left, Used
from duetime.kinds.prompts.agent import Access, Agent, AgentRequest, Reply, Spent
from duetime.kinds.prompts.envelope import framed, kept

log = logging.getLogger("duetime.agents")

AWAY_WAIT = 5 * SECOND
"""Delay before a prompt is retried whose limits could not be checked."""
_MOST = 10**15
"""Most tokens, or millionths of a dollar, counted for one run: agents report anything, and stores have bounds."""


@dataclass(frozen=True, slots=True)
class Waker:
    """An agent of the settings, and how much of it each owner may use."""

    agent: Agent
    patience: float = 900.0
    limit: Used = NOTHING
    wakes: Mapping[str, Used] = field(default_factory=dict)
    """Other agents that do the work for it, whose limits apply as well."""


class Books(Protocol):
    """Daily usage, kept in the store so that all workers share the same counts."""

    def reserve(self, owner: str, day: Instant, caps: Sequence[Cap]) -> str | Left: ...

    def spend(self, owner: str, day: Instant, caps: Sequence[Cap], used: Used) -> None: ...


class Waking:
    def __init__(
        self,
        wakers: Mapping[str, Waker],
        books: Books,
        clock: Clock,
        zone: str,
        access: Callable[[Claim, float, int], Access],
        runs_per_day: int = 0,
        inboxes: Mapping[str, Used] = MappingProxyType({}),
    ) -> None:
        """`inboxes`: the limits of the inboxes, which wake nobody."""
        self.wakers = wakers
        self._books, self._clock, self._zone = books, clock, zone
        self._access, self._runs_per_day, self._inboxes = access, runs_per_day, inboxes

    def wake(self, work: Work, name: str, prompt: str, limit: Used) -> Outcome:
        if work.stop.reason is StopReason.CANCELLED:
            return Cancelled("cancelled before its agent was woken")
        waker, definition = self.wakers[name], work.claim.definition
        caps, day = self._caps(definition, name, limit), self._day()
        left = self._reserve(definition, caps, day)
        if isinstance(left, Returned):
            return left
        reply = waker.agent.wake(self._agent_request(work, waker, prompt, left))
        if not isinstance(reply, Reply):
            return reply
        self._spend(definition.owner, day, caps, reply.spent)
        return _outcome(reply, name, work)

    def admit(self, work: Work, name: str, limit: Used) -> Outcome:
        """Admit a run to an inbox. It counts as a run: somebody will do it. If it is given back, it stays admitted."""
        definition = work.claim.definition
        left = self._reserve(definition, self._caps(definition, name, limit), self._day())
        return left if isinstance(left, Returned) else Waiting()

    def count(self, definition: Definition, spent: Spent) -> None:
        """Record the usage of an agent that answered later."""
        self._spend(definition.owner, self._day(), self._caps(definition, definition.subject, NOTHING), spent)

    def _reserve(self, definition: Definition, caps: Sequence[Cap], day: Instant) -> Left | Returned:
        try:
            left = self._books.reserve(definition.owner, day, caps)
        except StoreUnavailable:  # no agent was woken, so this was no attempt
            return Returned("the store was away when its limits were looked up", AWAY_WAIT)
        return self._held_back(definition, left, day) if isinstance(left, str) else left

    def _spend(self, owner: str, day: Instant, caps: Sequence[Cap], spent: Spent) -> None:
        """Record usage. An error here must not fail the run, because the agent's work is done."""
        used = Used(tokens=min(spent.tokens, _MOST), micros=min(round(spent.dollars * MICRO), _MOST))
        if not any(used):
            return
        try:
            self._books.spend(owner, day, caps, used)
        except (StoreUnavailable, StoreUnusable) as error:
            log.warning("what an agent of %s used is not counted (%s): %s", owner, used, error)

    def close(self) -> None:
        for waker in self.wakers.values():
            waker.agent.close()

    def _agent_request(self, work: Work, waker: Waker, prompt: str, left: Left) -> AgentRequest:
        run, definition, _ = work.claim
        timeout = work.policy.timeout
        patience = waker.patience if timeout is None else min(waker.patience, timeout / SECOND)
        zone = zone_of(definition, self._zone)
        depth = definition.depth + 1
        deeper = partial(self._access, work.claim, patience)
        return AgentRequest(
            run=run.id,
            fence=run.fence,
            task=definition.id,
            owner=definition.owner,
            prompt=prompt,
            text=framed(prompt, definition, run, zone),
            stored=definition.written,
            due=run.due,
            depth=depth,
            patience=patience,
            access=deeper(depth),
            stop=work.stop,
            report=work.report,
            deeper=deeper,
            zone=zone,
            left=left,
            lease=work.lease,
        )

    # -- limits ---------------------------------------------------------------------------------------------------

    def _caps(self, definition: Definition, name: str, limit: Used) -> list[Cap]:
        waker = self.wakers.get(name)
        limits = {name: self._inboxes.get(name, NOTHING)} if waker is None else {name: waker.limit, **waker.wakes}
        return [
            Cap("all", "all prompts of one owner", Used(runs=self._runs_per_day)),
            *(_of_agent(each, most) for each, most in limits.items()),
            Cap(f"task:{definition.id}", f"task #{definition.id}", limit),
        ]

    def _held_back(self, definition: Definition, full: str, day: Instant) -> Returned:
        """Give the run back until the next day, with a reason; its owner is alerted of each limit once a day."""
        tomorrow = self._midnight(day, days=1)
        text = f"The limit of {full} is reached: task #{definition.id} and what else it holds for wait until tomorrow."
        told = Alert(f"limit:{day}:{full}", "A limit of agent runs is reached", text)
        return Returned(f"the limit of {full} is reached", tomorrow - self._clock.now(), told)

    def _day(self) -> Instant:
        return self._midnight(self._clock.now())

    def _midnight(self, at: Instant, days: int = 0) -> Instant:
        """Return the first moment of a local day, which may have 23 or 25 hours."""
        zone = known_zone(self._zone)
        date = datetime_of(at).astimezone(zone).date() + timedelta(days=days)
        return instant_of(datetime.combine(date, time(), zone))


def _of_agent(name: str, limit: Used) -> Cap:
    return Cap(f"agent:{name}", f"the agent {name}", limit)


def zone_of(definition: Definition, otherwise: str) -> str:
    """Return the zone in which the owner gave the time: a run reads and shows times as its owner does."""
    try:
        return trigger_from_json(definition.trigger).timezone
    except InvalidInput:
        return otherwise


def _outcome(reply: Reply, name: str, work: Work) -> Outcome:
    run = work.claim.run
    if reply.waiting_until is not None:
        return Waiting(reply.waiting_until, run_holder(run.id, run.fence))
    return ending_of(reply, name)


def ending_of(reply: Reply, name: str) -> Completed | Failed:
    """Return the outcome that a reply means for its prompt."""
    result = kept(reply, name)
    if reply.denied:
        tools = ", ".join(reply.denied)
        return Failed(shorten_error(f"it was denied {tools}, so it did not do all it was asked for"), True, result)
    if reply.error is not None:
        return Failed(shorten_error(reply.error), reply.permanent, result)
    return Completed(result)
