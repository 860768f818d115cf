"""The prompt kind: instructions for an agent. A due prompt wakes its agent, or waits in an inbox until it is taken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from duetime.engine.clock import DAY, MINUTE, Instant
from duetime.engine.encoding import UNSAFE, encode_whole, json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, Prepared, ThreadUse, Work
from duetime.engine.model import (
    EVERYBODY,
    LOCAL,
    MICRO,
    NOTHING,
    Definition,
    RunStatus,
    Schedule,
    Used,
    is_busy,
    is_open_to,
    times_given_back,
)
from duetime.engine.narrowing import Narrowing, lower
from duetime.engine.outcome import Alert, Completed, Outcome, Returned, wait_for_others
from duetime.engine.policy.options import NotifyOn, Overlap, Policy, policy_for_ending
from duetime.engine.scheduler import Scheduler
from duetime.engine.scopes import Scopes
from duetime.engine.store import RunQuery
from duetime.engine.validation import Changes
from duetime.kinds.prompts.agent import CANNOT_START, Roster
from duetime.kinds.prompts.allowance import EVERYTHING, Allowance
from duetime.kinds.prompts.framing import is_from_agents
from duetime.kinds.prompts.payload import BUDGET_OF, LIMITS, PromptPayload
from duetime.kinds.prompts.runner import Waking
from duetime.service.kind_spec import KindHooks, KindStatus
from duetime.service.payload_fields import checked_payload
from duetime.service.warnings import ScheduleWarning, declare, warning
from duetime.settings.sections import HEARTBEAT, INBOX

if TYPE_CHECKING:
    from duetime.kinds.prompts.access import RunAccess

KIND = "prompt"
WAITS = "No agent is woken for it: it waits in the inbox until an agent takes it with take_prompt."
declare(no_agent=WAITS)
REMINDERS = "reminders"
"""Topic of reminders that name none, if the settings have no default topic; also the subject of reminders."""
UNKNOWN_WAIT = 1 * MINUTE
"""Longest delay before a prompt whose agent this worker does not know is offered again; the first delays are
shorter."""
UNKNOWN_TIMES = 5
"""Number of returns with that delay before the owner is alerted: by then, no other worker knows the agent either."""

_WARNING = 120
"""Most characters of a warning."""


def payload_of(definition: Definition) -> dict[str, Any]:
    """Return the payload; it is empty if the schedule was deleted."""
    return json_object(definition.payload) or {}


def prompt_of(definition: Definition) -> str:
    return str(payload_of(definition).get("prompt", ""))


def deliver_to(definition: Definition) -> str | None:
    """Return the topic that receives the results."""
    return policy_for_ending(definition.policy).deliver_to


def allowance_of(definition: Definition) -> Allowance | None:
    """Return the most that a prompt may use; None if nobody narrowed it."""
    return Allowance.stored(payload_of(definition).get("allow"))


def may_take(caller: Caller, definition: Definition, own_agents: Collection[str]) -> bool:
    """Return whether a caller may take a waiting prompt. An agent's run takes only what names its own agent or what
    runs stored, and not if it can use more than the author of the prompt could."""
    if caller.depth and not is_from_agents(definition) and named_agent(definition) not in own_agents:
        return False
    most, held = allowance_of(definition), Allowance.stored(caller.grant)
    return most is None or held is None or not most.lacks(held)


def named_agent(definition: Definition) -> str:
    """Return the agent that the input of a run names, otherwise that of its schedule."""
    return str(payload_of(definition).get("agent", definition.subject))


def is_for(agent: str, definition: Definition) -> bool:
    """Return whether a waiting prompt is for this agent."""
    return named_agent(definition) == agent


CUT = 60
"""Characters of a prompt in a table, and in the name of its schedule."""


def harmless(text: str) -> str:
    """Replace unsafe characters, because prompts were written by agents."""
    return UNSAFE.sub("\ufffd", text)


def headline(prompt: str, longest: int = CUT) -> str:
    """Return a prompt as a table shows it. Only the beginning of a very long one is read."""
    beginning = prompt[: 20 * longest]
    line = harmless(" ".join(beginning.split()))
    return line if len(line) <= longest and len(prompt) == len(beginning) else f"{line[:longest]}..."


def _allows_no_more(stored: Any, new: Any) -> bool:
    most, request = Allowance.stored(stored), Allowance.stored(new)
    return most is None or (request is not None and not most.lacks(request))


class PromptKind(KindHooks):
    name = KIND
    event_overlap = str(Overlap.LATEST)  # an agent that is woken late wants to know what is new, not all of it in turn
    thread_use = ThreadUse.CAPPED
    narrowing = Narrowing(
        {**dict.fromkeys(LIMITS, lower), "allow": _allows_no_more, "remind": lambda stored, new: new or not stored},
        shared=BUDGET_OF,
        free="remind",  # it wakes no agent
    )

    def __init__(
        self,
        waking: Waking,
        roster: Roster,
        owners: Mapping[str, Collection[str]] = MappingProxyType({}),
        *,
        scheduler: Callable[[], Scheduler] | None = None,
        access: RunAccess | None = None,
        differing: Sequence[str] = (),
    ) -> None:
        """`roster` has the names and types of all agents that can be named, and `differing` the settings of this
        process that differ from it. `owners` says who may use which agent; an agent that it does not name is open to
        all. `access` gives runs their tokens."""
        self.waking, self._roster, self._owners, self._differing = waking, roster, owners, differing
        self.inboxes = (*waking.inboxes, INBOX)
        """Agents whose due prompts wait until a connected agent takes them."""
        self._scheduler = scheduler
        self.access = access

    def agents(self, owner: str) -> list[str]:
        """Return the agents that an owner may use. The first is the default for prompts that name none."""
        default, named = self._roster.default, self._roster.agents.keys() - set(self.inboxes)
        all_agents = dict.fromkeys([default, *sorted(named), *self.inboxes])
        open_agents = [name for name in all_agents if self._is_there(name, owner)]
        return open_agents if self._is_there(default, owner) else list(dict.fromkeys([INBOX, *open_agents]))

    def describe_agents(self, owner: str) -> list[dict[str, str]]:
        """Return the agents that an owner may use, by name and type only: their other settings are not shown."""
        return [each for each in self._roster.described() if self._is_there(each["name"], owner)]

    def _is_there(self, agent: str, owner: str) -> bool:
        return is_open_to(self._owners.get(agent, (EVERYBODY,)), owner)

    def _reminder_topic(self, owner: str) -> str:
        kinds = {} if self._scheduler is None else self._scheduler().kinds
        defaults = (each.default_topic(owner) for each in kinds.values() if isinstance(each, KindHooks))
        return next(filter(None, defaults), REMINDERS)

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return "{id}"

    def scopes_for(self, definition: Definition) -> Scopes:
        """Name the agent of the schedule and that of a run with its own input: either may be woken."""
        reminds = payload_of(definition).get("remind")
        return () if reminds else (f"agent:{definition.subject}", f"agent:{named_agent(definition)}")

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        fields = checked_payload(PromptPayload, payload, self.name)
        limits = {name: fields[name] for name in LIMITS if name in fields}
        if fields.pop("remind", False):
            for name in (*limits, *({"allow"} & fields.keys())):
                problem = "a reminder wakes no agent, so there is nothing to limit; leave it out"
                raise InvalidInput(field=name, problem=problem)
            reminder = {"prompt": fields["prompt"], "remind": True}
            policy = {"deliver_to": self._reminder_topic(caller.owner)}
            return Prepared(reminder, REMINDERS, policy, _check_reminder, text="prompt")
        agents = self.agents(caller.owner)
        agent = fields.get("agent", agents[0])
        if not isinstance(agent, str) or agent not in agents:
            label = agent[:100] if isinstance(agent, str) else type(agent).__name__
            raise InvalidInput(field="agent", problem=f"there is no {label!r}; choose from {', '.join(agents)}")
        if limits and agent in self.inboxes and not caller.depth:  # what a run schedules has the limits of its task
            for name in [each for each in limits if each != "max_runs_per_day"]:
                rule = f"whoever takes prompts from {agent} need not report what they cost, so this would limit nothing"
                raise InvalidInput(field=name, problem=f"{rule}; give max_runs_per_day, or an agent that is woken")
        allowance = _allowed(fields.get("allow"), caller)
        if allowance is not None:
            fields["allow"] = allowance.view()
        return Prepared(fields, agent, text="prompt")

    def agent_of(self, definition: Definition) -> str:
        """Return the agent for a run, given its schedule with the input of the run: the agent that the input names,
        even if the schedule has another one by now; that of the schedule if the named agent does not exist."""
        named = named_agent(definition)
        is_there = named in self.inboxes or named in self.waking.wakers
        return named if is_there and self._is_there(named, definition.owner) else definition.subject

    def execute(self, work: Work) -> Outcome:
        payload, agent = work.payload, self.agent_of(work.claim.definition)
        if payload.get("remind"):
            text = work.filled(payload, ("prompt",), as_text=True)["prompt"]
            return Completed(encode_whole({"title": "Reminder", "text": work.with_gate_result(text)}))
        if self._is_there(agent, work.claim.definition.owner):
            if agent in self.inboxes:
                return self.waking.admit(work, agent, _limits(payload))
            if agent in self.waking.wakers:
                return self.waking.wake(work, agent, payload["prompt"], _limits(payload))
        return _not_there(work, agent)

    def close(self) -> None:
        for waker in self.waking.wakers.values():
            waker.agent.close()

    def heartbeat_takes(self, definition: Definition) -> bool:
        return HEARTBEAT in self.waking.wakers and definition.owner == LOCAL and definition.subject == INBOX

    def create_warnings(self, definition: Definition, payload: Mapping[str, Any]) -> list[ScheduleWarning]:
        """Warn about a prompt that waits in an inbox. A caller that named the inbox explicitly need not be warned."""
        if '"remind"' in definition.payload and payload_of(definition).get("remind"):
            return []
        if definition.subject not in self.inboxes:
            return [*self._agent_warnings(definition), *self._allow_warnings(definition, payload)]
        if payload.get("agent") is not None or self.heartbeat_takes(definition):
            return []
        return [warning("no_agent")]

    def limits(self, definition: Definition) -> dict[str, Any]:
        """Return what an agent may use for the schedule in a day and how long it may take, by the tightest of all
        limits."""
        # Most payloads name neither, and need not be parsed for that.
        payload = payload_of(definition) if '"remind"' in definition.payload or '"max_' in definition.payload else {}
        if payload.get("remind"):
            return {}
        of_day = self.waking.limits(definition, _limits(payload) if payload else NOTHING)
        return {"timeout_seconds": self.waking.patience(definition), **of_day}

    def status(self, owner: str) -> KindStatus:
        default = self.agents(owner)[0]
        agents = [self._agent_status(each, default, owner) for each in self.describe_agents(owner)]
        return KindStatus({"agents": agents, "spent": self.waking.usage(owner)})

    def _agent_status(self, described: Mapping[str, str], default: str, owner: str) -> dict[str, Any]:
        """Return an agent, and whether it can be woken from this process. What it lacks may name a file, so only the
        local owner sees that."""
        view: dict[str, Any] = {**described, **({"default": True} if described["name"] == default else {})}
        waker = self.waking.wakers.get(described["name"])
        if waker is None:  # an agent that is not woken, or that only the server's settings have
            return view
        missing = waker.agent.missing()
        view["can_start"] = missing is None
        return view if missing is None or owner != LOCAL else {**view, "missing": missing}

    def published_settings(self) -> Mapping[str, Any]:
        return self._roster.published()

    def differing_settings(self) -> list[str]:
        return list(self._differing)

    def _agent_warnings(self, definition: Definition) -> list[ScheduleWarning]:
        """Warn if the agent could not be woken from here, because its program, key or folder is missing."""
        waker = self.waking.wakers.get(definition.subject)
        missing = None if waker is None else waker.agent.missing()
        if missing is not None and definition.owner != LOCAL:
            missing = f"the agent {definition.subject} {CANNOT_START}"
        return [] if missing is None else [ScheduleWarning("agent_not_ready", _one_line(missing))]

    def _allow_warnings(self, definition: Definition, payload: Mapping[str, Any]) -> list[ScheduleWarning]:
        """Warn if more was requested than the agent is allowed. This leaves out what follows from the caller's run,
        which nobody requested."""
        waker, request = self.waking.wakers.get(definition.subject), payload.get("allow")
        if waker is None or request is None:
            return []
        beyond = waker.allowance.lacks(waker.allowance.with_asked(request))
        text = f"The agent {definition.subject} is not allowed {beyond}, so its runs do without."
        return [ScheduleWarning("not_allowed", _one_line(text))] if beyond else []

    def trial(self, name: str, owner: str) -> dict[str, Any] | None:
        """Return a prompt that any agent answers at once; the inbox has nobody to test."""
        return None if name in self.inboxes else {"prompt": "This is a test. Answer with the word ok.", "agent": name}

    def wakeable(self, owner: str) -> list[str]:
        """Return the agents that this process can wake."""
        ready = [name for name, waker in self.waking.wakers.items() if waker.agent.missing() is None]
        return [name for name in self.agents(owner) if name in ready]

    def handed_to(self, payload: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {**payload, "agent": name}

    def name_of(self, payload: Mapping[str, Any]) -> str | None:
        return headline(str(payload.get("prompt", ""))) or KIND

    def adapt_edit(self, caller: Caller, schedule: Schedule, changes: Changes) -> Changes:
        """Allow another agent for a due prompt that waits in vain, for example because the settings no longer name its
        agent. Nothing else that is due can be edited."""
        retimed = changes.trigger_type is not None or changes.next is not None
        if self._scheduler is None or changes.payload is None or retimed:
            return changes
        if changes.payload.get("agent") == payload_of(schedule.definition).get("agent"):
            return changes
        waits = _was_always_returned(self._scheduler(), caller, schedule)
        return replace(changes, amid_runs=True) if waits else changes


def _was_always_returned(scheduler: Scheduler, caller: Caller, schedule: Schedule) -> bool:
    """Return whether a run is due and was returned each time, so that no attempt has begun."""
    if not is_busy(schedule.progress):
        return False
    live = scheduler.runs(caller, RunQuery(schedule=schedule.definition.id, status="live", count_to=0))
    if not live.items or live.cursor is not None:
        return False
    return all(run.status == RunStatus.PENDING and run.attempt == 0 for run in live.items)


def _not_there(work: Work, agent: str) -> Returned:
    """Give the run back. Its owner is alerted once per agent, topic and due day, because many prompts may wait for the
    agent."""
    run, definition, _ = work.claim
    reason = f"there is no agent {agent} in the worker's settings; name it there, or give the task another agent"
    alert = Alert(
        f"agent:{agent}:{work.policy.deliver_to}:{run.due // DAY}",
        "A prompt waits for an agent that is not there",
        f"Task #{definition.id} is due and waits: {reason}.",
    )
    times = times_given_back(run)
    often = wait_for_others(times - UNKNOWN_TIMES, UNKNOWN_WAIT) == UNKNOWN_WAIT
    return Returned(reason, wait_for_others(times, UNKNOWN_WAIT), alert if often else None)


def _allowed(request: Any, caller: Caller) -> Allowance | None:
    """Return the most that a prompt may use; None if that is left to the agent's settings. What an agent's run
    schedules gets no more than the run has, even if the settings allow more later; the same is true of the scopes of
    its caller's token."""
    held = Allowance.stored(caller.grant)
    if caller.scopes:
        held = (held or EVERYTHING).narrowed(EVERYTHING._replace(scopes=caller.scopes))
    if request is None:
        return held
    return (held or EVERYTHING).narrowed(EVERYTHING.with_asked(request))


def _one_line(text: str) -> str:
    """Return a sentence of at most 120 characters; a longer one keeps its beginning and its end."""
    sentence = f"{text[:1].upper()}{text[1:].rstrip('.')}."
    return sentence if len(sentence) <= _WARNING else f"{sentence[:60]}…{sentence[61 - _WARNING :]}"


def _limits(payload: Mapping[str, Any]) -> Used:
    runs, tokens, dollars = (payload.get(name, 0) for name in LIMITS)
    return Used(runs, tokens, round(dollars * MICRO))


def _check_reminder(policy: Policy) -> None:
    if policy.notify_on == NotifyOn.FAILURE:
        words = "a reminder cannot fail, so nothing would ever be sent; leave it out"
        raise InvalidInput(field="notify_on", problem=words)
