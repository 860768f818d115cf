"""Runs a due prompt: checks its limits, wakes its agent, and turns the reply into an outcome."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from datetime import datetime, time, timedelta
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

from duetime.engine.checkout import LEASE
from duetime.engine.clock import SECOND, Clock, Instant, datetime_of, instant_of
from duetime.engine.encoding import LIMIT, encode, encode_whole, json_object, shorten_error
from duetime.engine.errors import StoreUnavailable, StoreUnusable
from duetime.engine.kind import StopReason, Work
from duetime.engine.model import MICRO, NOTHING, Cap, Definition, Left, RunStatus, Used, limit_reached, run_holder
from duetime.engine.outcome import Alert, Cancelled, Completed, Failed, Outcome, Retry, Returned, Waiting
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.finish import NOT_TAKEN
from duetime.engine.policy.options import Untaken, policy_for_ending
from duetime.engine.store import RunQuery, Store
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers.build import readable
from duetime.engine.value_class import dataclass
from duetime.kinds.prompts.agent import Access, Agent, AgentReply, AgentRequest, Spent
from duetime.kinds.prompts.allowance import NOTHING_MORE, Allowance
from duetime.kinds.prompts.framing import data_block, event_block, framed, stored_by
from duetime.kinds.prompts.payload import BUDGET_OF

log = logging.getLogger("duetime.agents")

AWAY_WAIT = 5 * SECOND
"""Delay before a prompt whose limits could not be checked is retried."""
LEAST = 8 * 1024
"""Bytes that a long text leaves for the outcome, and that both leave for the tool calls."""
_MOST = 10**15
"""Maximum number of tokens, or millionths of a dollar, counted for one run, because agents may report anything and
stores have bounds."""
_MARK = " [… cut]"


def encode_reply(reply: AgentReply, agent: str) -> str:
    """Return the stored form of an answer, as JSON without empty parts. If it is too long, its parts are cut rather
    than the whole. The text has priority, because people read it; of the calls, the last are kept, because they say
    more than the first."""
    whole = _parts(reply, agent)
    text = encode_whole(whole)
    if _size(text) <= LIMIT:
        return text
    calls, outcome = list(whole.pop("tool_calls", ())), whole.pop("outcome", None)
    most = reply.earlier_calls + len(calls)
    others = {**whole, "text": "", "outcome": None, "tool_calls": [], "earlier_calls": most}
    room = LIMIT - _size(encode_whole(others))
    for_calls = min(LEAST, _size(encode_whole(calls)))
    for_outcome = min(LEAST, _size(encode_whole(outcome)))
    cut = json.loads(encode(whole["text"], room - for_calls - for_outcome - _size(_MARK)))
    if not isinstance(cut, str):
        whole["text"] = cut["text"] + _MARK
    room -= _size(encode_whole(whole["text"]))
    if outcome is not None:
        whole["outcome"] = json.loads(encode(outcome, room - for_calls))
        room -= _size(encode_whole(whole["outcome"]))
    if calls:
        whole["tool_calls"] = latest = _latest(calls, room)
        if len(latest) < most:
            whole["earlier_calls"] = most - len(latest)
    return encode_whole(whole)


def _parts(reply: AgentReply, agent: str) -> dict[str, Any]:
    parts = {
        "text": reply.text,
        "agent": agent,
        "outcome": reply.outcome,
        "tool_calls": list(reply.tool_calls) or None,
        "earlier_calls": reply.earlier_calls or None,
        "denied": [name[:200] for name in reply.denied[:20]] or None,
        "usage": {each: value for each, value in asdict(reply.spent).items() if value} or None,
        "exit_code": reply.exit_code,
    }
    return {each: value for each, value in parts.items() if value is not None}


def cost_of(result: Any) -> dict[str, Any] | None:
    """Return the tokens and dollars that a run used, from its result."""
    usage = result.get("usage") if isinstance(result, dict) else None
    return usage if isinstance(usage, dict) else None


def _latest(calls: Sequence[Mapping[str, Any]], room: int) -> list[Mapping[str, Any]]:
    """Return the last calls that fit."""
    fitting = 0
    for call in reversed(calls):
        room -= _size(encode_whole(call)) + 1
        if room < 0:
            break
        fitting += 1
    return list(calls[len(calls) - fitting :])


def _size(text: str) -> int:
    return len(text.encode())


@dataclass(frozen=True, slots=True)
class Waker:
    """An agent of the settings, and how much of it each owner may use."""

    agent: Agent
    patience: float = 900.0
    limit: Used = NOTHING
    wakes: Mapping[str, Used] = field(default_factory=dict)
    """Other agents that do its work, whose limits apply as well."""
    allowance: Allowance = NOTHING_MORE
    """What it may use besides Duetime's own tools."""
    failures_count: bool = True
    """Whether a failed run counts towards the daily limits of runs; what it used always counts."""


_ALL = "all"
"""Subject of the limit on all prompts of an owner."""


def _set_amounts(limit: Used) -> dict[str, Any]:
    """Return the amounts of a limit, of which 0 means none."""
    return {name: amount for name, amount in _amounts(limit).items() if amount}


def _amounts(used: Used) -> dict[str, Any]:
    return {"runs": used.runs, "tokens": used.tokens, "dollars": used.micros / MICRO}


class Waking:
    def __init__(
        self,
        wakers: Mapping[str, Waker],
        store: Store,
        clock: Clock,
        zone: str,
        access: Callable[[Claim, float, int, str], Access],
        runs_per_day: int = 0,
        inboxes: Mapping[str, Used] = MappingProxyType({}),
    ) -> None:
        """`store` counts daily usage, for all workers together. `inboxes` are the limits of the inboxes, which wake
        nobody."""
        self.wakers = wakers
        self._store, self._clock, self._zone = store, clock, zone
        self._access, self._runs_per_day, self.inboxes = access, runs_per_day, inboxes
        self._tightest = lru_cache(maxsize=1024)(self._tightest_of)

    def wake(self, work: Work, name: str, prompt: str, limit: Used) -> Outcome:
        if work.stop.reason is StopReason.CANCELLED:
            return Cancelled("cancelled before its agent was woken")
        waker, definition = self.wakers[name], work.claim.definition
        caps, day = self._caps(definition, name, limit), self._day()
        left = self._reserve(definition, caps, day)
        if isinstance(left, Returned):
            return left
        reply = waker.agent.wake(self._agent_request(work, name, prompt, left))
        refund = int(not waker.failures_count and _has_failed(reply))
        spent = reply.spent if isinstance(reply, AgentReply) else Spent()
        self._spend(definition.owner, day, caps, spent, refund)
        if not isinstance(reply, AgentReply):
            return reply
        if reply.waiting_until is not None:
            return Waiting(reply.waiting_until, run_holder(work.claim.run.id, work.claim.run.fence))
        return ending_of(reply, name)

    def admit(self, work: Work, name: str, limit: Used) -> Outcome:
        """Admit a run to an inbox. It counts as a run, because somebody will do it. If it is given back, it stays
        admitted. A run that replaces one that nobody took was counted with that one."""
        definition = work.claim.definition
        if work.policy.untaken != Untaken.KEEP and recurs(definition) and self._replaces_untaken(work.claim):
            return Waiting()
        left = self._reserve(definition, self._caps(definition, name, limit), self._day())
        return left if isinstance(left, Returned) else Waiting()

    def _replaces_untaken(self, claim: Claim) -> bool:
        query = RunQuery(schedule=claim.definition.id, limit=2, count_to=0)
        try:
            latest = self._store.runs(query).items
        except StoreUnavailable:
            return False
        before = next((run for run in latest if run.id != claim.run.id), None)
        if before is None or before.status != RunStatus.MISSED or before.error != NOT_TAKEN:
            return False
        return before.due >= self._day()

    def count(self, definition: Definition, name: str, spent: Spent) -> None:
        """Record the usage of an agent that answered later."""
        self._spend(definition.owner, self._day(), self._caps(definition, name, NOTHING), spent)

    def _reserve(self, definition: Definition, caps: Sequence[Cap], day: Instant) -> Left | Returned:
        """Count the run. At a limit it is given back until the next day, and its owner is alerted once a day."""
        try:
            left = self._store.reserve(definition.owner, day, caps)
        except StoreUnavailable:  # no agent was woken, so this was no attempt
            return Returned("the store was away when its limits were looked up", AWAY_WAIT)
        if not isinstance(left, str):
            return left
        reason = limit_reached(left)
        text = f"{reason[0].upper()}{reason[1:]}: task #{definition.id} and what else it holds for wait until tomorrow."
        alert = Alert(f"limit:{day}:{left}", "A limit of agent runs is reached", text)
        return Returned(reason, self._midnight(day, days=1) - self._clock.now(), alert)

    def _spend(self, owner: str, day: Instant, caps: Sequence[Cap], spent: Spent, refund: int = 0) -> None:
        """Record usage. An error here must not fail the run, because the agent's work is done. `refund` is the number
        of runs that were counted and do not count after all."""
        used = Used(-refund, tokens=min(spent.tokens, _MOST), micros=min(round(spent.dollars * MICRO), _MOST))
        if not any(used):
            return
        try:
            self._store.spend(owner, day, caps, used)
        except (StoreUnavailable, StoreUnusable) as error:
            log.warning("what an agent of %s used is not counted (%s): %s", owner, used, error)

    def _agent_request(self, work: Work, name: str, prompt: str, left: Left) -> AgentRequest:
        waker, (run, definition, _) = self.wakers[name], work.claim
        patience = self.patience(definition, name)
        zone, depth = zone_of(definition, self._zone), work.depth + 1
        allowance = waker.allowance.narrowed(Allowance.stored(work.payload.get("allow")))
        deeper = partial(self._access, work.claim, patience)
        data = event_block(work.event) + data_block(work.gift)
        return AgentRequest(
            run=run.id,
            fence=run.fence,
            task=definition.id,
            owner=definition.owner,
            prompt=prompt,
            text=framed(prompt, definition, run, zone, data),
            stored=definition.written,
            due=run.due,
            depth=depth,
            patience=patience,
            access=deeper(depth, allowance.text()),
            stop=work.stop,
            report=work.report,
            deeper=deeper,
            zone=zone,
            left=left,
            allowance=allowance,
            lease=work.lease,
            once=work.policy.at_most_once,
            author=stored_by(definition),
            data=data,
        )

    def _agent_limits(self, name: str) -> dict[str, Used]:
        waker = self.wakers.get(name)
        return {name: self.inboxes.get(name, NOTHING)} if waker is None else {name: waker.limit, **waker.wakes}

    def _caps(self, definition: Definition, name: str, limit: Used) -> list[Cap]:
        limits = self._agent_limits(name)
        task = (json_object(definition.payload) or {}).get(BUDGET_OF, definition.id)
        return [
            Cap(_ALL, "all prompts of one owner", Used(runs=self._runs_per_day)),
            *(Cap(f"agent:{each}", f"the agent {each}", most) for each, most in limits.items()),
            Cap(f"task:{task}", f"task #{task}", limit),
        ]

    def usage(self, owner: str) -> dict[str, Any]:
        """Return what an owner's prompts used today and this week, which begins on Monday, and the daily limits."""
        today = self._day()
        weekday = datetime_of(today).astimezone(known_zone(self._zone)).weekday()
        rows = self._store.spent(owner, self._midnight(today, days=-weekday))
        of_today = {subject: used for day, subject, used in rows if day == today}
        of_week = [used for _, subject, used in rows if subject == _ALL]
        limits = {
            _ALL: Used(runs=self._runs_per_day),
            **{f"agent:{name}": each.limit for name, each in self.wakers.items()},
        }
        limits |= {f"agent:{name}": limit for name, limit in self.inboxes.items()}
        return {
            "today": _amounts(of_today.get(_ALL, NOTHING)),
            "this_week": _amounts(Used(*(sum(each) for each in zip(*of_week, strict=True)))),
            "limits_per_day": [
                {"for": subject, **_set_amounts(limit), "used": _amounts(of_today.get(subject, NOTHING))}
                for subject, limit in limits.items()
                if any(limit)
            ],
        }

    def limits(self, definition: Definition, limit: Used) -> dict[str, Any]:
        """Return the tightest limits of a day for a prompt, by the names under which they are set."""
        return self._tightest(definition.subject, limit)

    def _tightest_of(self, name: str, limit: Used) -> dict[str, Any]:
        limits = [Used(runs=self._runs_per_day), *self._agent_limits(name).values(), limit]
        tightest = Used(*(min(filter(None, numbers), default=0) for numbers in zip(*limits, strict=True)))
        return {f"max_{amount}_per_day": most for amount, most in _set_amounts(tightest).items()}

    def patience(self, definition: Definition, name: str | None = None) -> float:
        """Return how many seconds whoever does the prompt has for it: those of the agent of this name, or of the
        schedule."""
        waker, timeout = self.wakers.get(name or definition.subject), policy_for_ending(definition.policy).timeout
        if timeout is None:
            return LEASE / SECOND if waker is None else waker.patience
        return timeout / SECOND if waker is None else min(waker.patience, timeout / SECOND)

    def _day(self) -> Instant:
        return self._midnight(self._clock.now())

    def _midnight(self, at: Instant, days: int = 0) -> Instant:
        """Return the first moment of a local day, which may have 23 or 25 hours."""
        zone = known_zone(self._zone)
        date = datetime_of(at).astimezone(zone).date() + timedelta(days=days)
        return instant_of(datetime.combine(date, time(), zone))


def _has_failed(reply: AgentReply | Outcome) -> bool:
    return bool(reply.error or reply.denied) if isinstance(reply, AgentReply) else isinstance(reply, Failed | Retry)


def zone_of(definition: Definition, otherwise: str) -> str:
    """Return the zone in which the owner gave the time, because a run reads and shows times as its owner does."""
    trigger = readable(definition.trigger)
    return otherwise if trigger is None else trigger.timezone


def recurs(definition: Definition) -> bool:
    trigger = readable(definition.trigger)
    return trigger is not None and trigger.type != "once"


def ending_of(reply: AgentReply, name: str) -> Completed | Failed:
    """Return the outcome that a reply means for its prompt."""
    result = encode_reply(reply, name)
    if reply.denied:
        tools = ", ".join(reply.denied)
        return Failed(shorten_error(f"it was denied {tools}, so it did not do all it was asked for"), True, result)
    if reply.error is not None:
        return Failed(shorten_error(reply.error), reply.permanent, result)
    return Completed(result)
