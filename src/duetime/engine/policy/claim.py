"""Claims: due entries become started runs. This module decides about catch-up, overlap, limits and the next instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import TRANSIENT, InvalidInput, Refused
from duetime.engine.model import (
    NO_RUN,
    Definition,
    DueEntry,
    Progress,
    Run,
    RunStatus,
    Schedule,
    ScheduleId,
    ScheduleState,
    Trouble,
    WorkerId,
    executor_of,
)
from duetime.engine.outcome import Failed
from duetime.engine.policy.catch_up import LEAD, Answers, Occurring, Question, occurrences, without
from duetime.engine.policy.decision import Change
from duetime.engine.policy.finish import HeldRun, Reader, end_run, miss_untaken, replace_untaken, replaceable
from duetime.engine.policy.incidents import note
from duetime.engine.policy.options import Overlap, Policy, Untaken, policy_for_ending, policy_from_json
from duetime.engine.policy.pauses import resume
from duetime.engine.policy.record import Finished, begin_to_wait, settle
from duetime.engine.policy.rows import (
    Extension,
    NewId,
    Span,
    Started,
    Writes,
    claimed_run,
    ended,
    new_run,
    run_entry,
    span_run,
    trigger_entry,
)
from duetime.engine.triggers import trigger_from_json
from duetime.engine.triggers.step_budget import FEW_STEPS, LOCKED_STEPS, MOST_POSTPONED, OutOfSteps, step_budget
from duetime.engine.value_class import NamedTuple, dataclass

# Bound once: an enum lookup costs as much as a call, and every claim needs these.
_ACTIVE = ScheduleState.ACTIVE


class DueItem(NamedTuple):
    """A due entry as a store loads it, with its progress row locked."""

    due: DueEntry
    definition: Definition
    progress: Progress
    run: Run | None


class Claim(NamedTuple):
    """A run that now belongs to a worker."""

    run: Run
    definition: Definition
    at: Instant


Taken = Mapping[ScheduleId, frozenset[Instant]]
"""Occurrences that already have a row: the schedule advances past them without a run."""


@dataclass(slots=True)
class ClaimPlan:
    worker: WorkerId
    now: Instant
    new_id: NewId
    reader: Reader
    taken: Taken = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    """Trigger evaluations that were computed beforehand, outside the transaction."""
    writes: Writes = field(default_factory=Writes)
    claims: list[Claim] = field(default_factory=list)
    postponed: list[Question] = field(default_factory=list)
    """Evaluations that need more steps than a transaction allows: their entries stay in the queue until they are
    answered."""


def plan_claims(
    entries: Sequence[DueItem],
    worker: WorkerId,
    now: Instant,
    new_id: NewId,
    reader: Reader,
    taken: Taken | None = None,
    answers: Answers | None = None,
) -> ClaimPlan:
    """Plan every entry. One that cannot be planned marks its schedule as broken, and the rest continues."""
    plan = ClaimPlan(worker, now, new_id, reader, taken or {}, answers or {})
    if taken is not None:  # rare, and the question depends on the transaction: each evaluation gets the full budget
        _plan_all(plan, entries, entries)
        return plan
    with step_budget(LOCKED_STEPS, OutOfSteps) as budget:
        _plan_all(plan, entries, entries, budget)
    return plan


def _plan_all(
    plan: ClaimPlan, entries: Iterable[DueItem], batch: Sequence[DueItem], budget: step_budget | None = None
) -> None:
    """Plan the given entries, which are a whole batch or a part of one."""
    for entry in entries:
        progress = plan.writes.progress_of(entry.progress)
        try:
            policy, occurring = _read(plan, entry, progress)
        except TRANSIENT:
            raise  # the whole batch is retried: this row is not the cause
        except OutOfSteps:
            plan.postponed.append(_question(entry, progress))
            if budget is None:
                continue
            _plan_rest(plan, batch[batch.index(entry) + 1 :], batch, budget)
            return
        except Exception as error:
            plan.writes.due_gone.append(entry.due)
            mark_broken(plan.writes, entry.definition, progress, f"{type(error).__name__}: {error}")
            continue
        plan.writes.due_gone.append(entry.due)
        if entry.due.run == NO_RUN:
            if occurring is not None:
                _advance(plan, entry, policy, occurring, progress)
            else:
                _end_pause(plan, entry, progress, batch)
        # otherwise, it was decided earlier in this batch
        elif entry.run is not None and entry.run.id not in plan.writes.runs:
            _go_on(plan, entry, entry.run, policy)


def _plan_rest(plan: ClaimPlan, entries: Sequence[DueItem], batch: Sequence[DueItem], budget: step_budget) -> None:
    """Plan the rest of a batch after an evaluation has used up the budget. An owner that has exceeded its share gets no
    more steps: its entries come last, and those that need steps are postponed. Other owners are not affected."""
    last: list[DueItem] = []
    _plan_all(plan, _within_shares(plan, entries, batch, budget, last), batch)
    with step_budget(0, OutOfSteps):
        _plan_all(plan, last, batch)


def _within_shares(
    plan: ClaimPlan, entries: Sequence[DueItem], batch: Sequence[DueItem], budget: step_budget, last: list[DueItem]
) -> Iterator[DueItem]:
    """Yield the entries of owners that have not used up their share, and put the others in `last`. Refill the budget
    whenever an evaluation was postponed, before the entry that follows it."""
    share = max(1, MOST_POSTPONED // len({entry.definition.owner for entry in batch}))
    times: Counter[str] = Counter()
    counted = 0
    for entry in entries:
        if counted < len(plan.postponed):
            times.update([question.owner for question in plan.postponed[counted:]])
            counted = len(plan.postponed)
            budget.refill(None if counted < MOST_POSTPONED else FEW_STEPS)
        if times[entry.definition.owner] < share:
            yield entry
        else:
            last.append(entry)


def _go_on(plan: ClaimPlan, entry: DueItem, run: Run, policy: Policy) -> None:
    if run.status == RunStatus.PENDING:  # retried, returned or started manually
        _start_pending(plan, entry, run)
    elif run.status == RunStatus.WAITING:
        _expire(plan, entry, run, policy)


def _end_pause(plan: ClaimPlan, entry: DueItem, progress: Progress, entries: Sequence[DueItem]) -> None:
    """Resume a schedule whose pause ends now; its next occurrence is claimed by a later exchange. The entry stays in
    the queue for that exchange if this one also decides about runs of the schedule, or has too few steps left."""
    definition, at = entry.definition, entry.definition.resume_at
    if at is None or progress.state != ScheduleState.PAUSED:
        return
    if sum(each.due.schedule == definition.id for each in entries) > 1:
        plan.writes.due_gone.remove(entry.due)
        return
    change = Change(Schedule(definition, progress), plan.now, plan.reader, plan.new_id)
    as_of = Instant(at - 1)  # an occurrence that is due at the instant itself runs
    try:
        writes, _ = resume(change, as_of)
    except OutOfSteps as error:
        plan.writes.due_gone.remove(entry.due)
        plan.postponed.append(_question(entry, progress)._replace(evaluate=error.evaluate))
    except Refused as refusal:
        mark_broken(plan.writes, definition, progress, refusal.message)
    else:
        plan.writes.add(writes)


def mark_broken(writes: Writes, definition: Definition, progress: Progress, reason: str) -> None:
    note(writes, definition, policy_for_ending(definition.policy), Trouble.BROKEN, reason)
    current = writes.progress_of(progress)
    writes.progress[current.schedule] = current._replace(
        state=ScheduleState.BROKEN, note=f"cannot be planned: {reason}; edit or delete it"
    )
    writes.withdraw(current.schedule)


def _read(plan: ClaimPlan, entry: DueItem, progress: Progress) -> tuple[Policy, Occurring | None]:
    """Parse everything in the row that can fail, before anything is decided. This does not query the store."""
    policy = policy_from_json(entry.definition.policy)
    if entry.due.run != NO_RUN or progress.state != _ACTIVE or progress.next is None:
        return policy, None
    due, text = progress.next, entry.definition.trigger
    occurring = plan.answers.get(_question(entry, progress)) if plan.answers else None
    if occurring is None:
        held = entry.due.at - due + (LEAD if progress.active or progress.queued else 0)  # as in `_question`
        occurring = occurrences(text, policy, due, progress.through, held, plan.now)
    elif isinstance(occurring, InvalidInput):
        raise occurring
    taken = plan.taken.get(progress.schedule)
    return policy, without(occurring, trigger_from_json(text), taken) if taken else occurring


def _question(entry: DueItem, progress: Progress) -> Question:
    definition, due = entry.definition, progress.next
    assert due is not None
    # How long the entry was delayed on purpose. An entry that stayed in the queue until its instant because its
    # schedule was busy is decided a moment later, which does not count as lateness either.
    held = entry.due.at - due + (LEAD if progress.active or progress.queued else 0)
    return Question(
        definition.id, definition.version, definition.trigger, definition.policy, due, progress.through, held,
        definition.owner,
    )  # fmt: skip


def _advance(plan: ClaimPlan, entry: DueItem, policy: Policy, occurring: Occurring, before: Progress) -> None:
    definition = entry.definition
    if before.untaken and occurring.run and policy.untaken == Untaken.REPLACE and policy.only_if is None:
        in_outage, schedule = occurring.missed is not None, Schedule(definition, before)
        before = replace_untaken(plan.writes, schedule, policy, plan.now, plan.reader, in_outage=in_outage)
    progress, following, run = before, occurring.following, occurring.run
    if len(run) == 1 and occurring.missed is None and policy.max_runs is None and not (before.active or before.queued):
        _start_alone(plan, entry, policy, occurring, before)
        return
    if occurring.missed is not None:
        reason = "its time passed while no worker could run it"
        missed = span_run(plan.new_id(), definition, occurring.missed, RunStatus.MISSED, reason, plan.now)
        plan.writes.new_runs.append(missed)
        progress = progress._replace(last_status=RunStatus.MISSED, last_error=reason, gap=None)
        if not run:  # otherwise, the newest occurrence is caught up
            note(plan.writes, definition, policy, Trouble.MISSED, reason, missed)
    for due in run:
        if policy.max_runs is not None and progress.run_count >= policy.max_runs:
            break
        progress = _admit(plan, entry, policy, due, progress, before)
    if policy.max_runs is not None and progress.run_count >= policy.max_runs:
        following = None
    progress = ended(progress._replace(next=following, through=occurring.through))
    plan.writes.progress[definition.id] = progress
    if following is not None:
        plan.writes.due_new.append(trigger_entry(definition, policy, following))


def _start_alone(plan: ClaimPlan, entry: DueItem, policy: Policy, occurring: Occurring, before: Progress) -> None:
    """Start the only run. Nearly every claim is this case, so only a few columns of its progress are written."""
    definition, following = entry.definition, occurring.following
    _claim_new_run(plan, entry, occurring.run[0])
    plan.writes.started[definition.id] = Started(following, occurring.through, definition.id), before
    if following is not None:
        plan.writes.due_new.append(trigger_entry(definition, policy, following))


def _admit(
    plan: ClaimPlan, entry: DueItem, policy: Policy, due: Instant, progress: Progress, before: Progress
) -> Progress:
    """Admit one occurrence that may run: start it, queue it, or skip it visibly."""
    if progress.queued == 0 and progress.active == replaceable(policy, progress):
        return _start(plan, entry, due, progress)
    if policy.overlap == Overlap.ALLOW and before.queued == 0:
        if progress.run_count == before.run_count:
            return _start(plan, entry, due, progress)
        # One entry starts one run, so that a worker gets no more than it asked for.
        run = new_run(plan.new_id(), entry.definition, due, RunStatus.PENDING)
        plan.writes.new_runs.append(run)
        plan.writes.due_new.append(run_entry(entry.definition, policy, run, plan.now))
        return progress._replace(run_count=progress.run_count + 1, active=progress.active + 1, gap=None)
    may_queue = policy.overlap != Overlap.SKIP or before.active == 0
    if may_queue and progress.queued < policy.queue_limit:
        plan.writes.new_runs.append(new_run(plan.new_id(), entry.definition, due, RunStatus.QUEUED))
        return progress._replace(run_count=progress.run_count + 1, queued=progress.queued + 1, gap=None)
    if progress.gap is not None:  # consecutive skips share a row: a fast trigger must not flood the history
        plan.writes.extensions.append(Extension(progress.gap, due, 1))
        return progress
    waits = before.active > 0 and before.active == before.untaken
    active = "an earlier run is still waiting for an agent" if waits else "an earlier run was still active"
    reason = "its queue was full" if may_queue else active
    run = span_run(plan.new_id(), entry.definition, Span(due, due, 1), RunStatus.SKIPPED, reason, plan.now)
    plan.writes.new_runs.append(run)
    return progress._replace(gap=run.id)


def _claim_new_run(plan: ClaimPlan, entry: DueItem, due: Instant) -> None:
    definition, at, now = entry.definition, entry.due.at, plan.now
    run = claimed_run(plan.new_id(), definition, due, plan.worker, at if at > now else now)
    plan.writes.new_runs.append(run)
    plan.claims.append(Claim(run, definition, at))


def _start(plan: ClaimPlan, entry: DueItem, due: Instant, progress: Progress) -> Progress:
    _claim_new_run(plan, entry, due)
    return progress._replace(run_count=progress.run_count + 1, active=progress.active + 1, gap=None, note=None)


def _start_pending(plan: ClaimPlan, entry: DueItem, run: Run) -> None:
    started = run._replace(
        status=RunStatus.RUNNING,
        worker=plan.worker,
        fence=run.fence + 1,
        attempt=run.attempt + 1,
        started=max(entry.due.at, plan.now),
        finished=None,
        error=run.error if run.attempt else None,  # before the first attempt, it says why the run was returned
    )
    plan.writes.runs[run.id] = started
    plan.claims.append(Claim(started, entry.definition, entry.due.at))
    progress = plan.writes.progress_of(entry.progress)
    if progress.note is not None and progress.state == ScheduleState.ACTIVE:
        plan.writes.progress[progress.schedule] = progress._replace(note=None)  # it is no longer held back


def _expire(plan: ClaimPlan, entry: DueItem, run: Run, policy: Policy) -> None:
    """Release a run whose holder did not finish in time, so that others can take it; a run without a holder has passed
    its deadline. If both happen at once, as for a webhook that never answers, it counts as a failed attempt."""
    at = max(entry.due.at, plan.now)  # entries are claimed slightly ahead of their instant
    if run.holder is not None and (run.until is None or run.until > at):
        plan.writes.runs[run.id] = run._replace(holder=None, expires=None, fence=run.fence + 1)
        begin_to_wait(plan.writes, HeldRun(run, entry.definition, entry.progress), policy, plan.now, plan.reader)
        if run.until is not None:
            plan.writes.due_new.append(run_entry(entry.definition, policy, run, run.until))
        return
    lapsed = run._replace(holder=None, until=None, expires=None, fence=run.fence + 1)
    held = HeldRun(lapsed, entry.definition, entry.progress)
    if run.holder is not None:
        held = held._replace(run=lapsed._replace(status=RunStatus.RUNNING))  # it was already counted as taken
        missed = Finished(run.id, lapsed.fence, Failed(_why_expired(run, policy)), None, plan.now)
        settle(plan.writes, held, missed, plan.now, plan.reader)
        return
    if policy.untaken == Untaken.EXPIRE:
        try:
            miss_untaken(plan.writes, held._replace(run=run), policy, plan.now, plan.reader)
        except OutOfSteps as error:
            plan.writes.due_gone.remove(entry.due)
            question = _question(entry, entry.progress._replace(next=run.due))
            plan.postponed.append(question._replace(evaluate=error.evaluate))
        return
    failed = lapsed._replace(status=RunStatus.FAILED, finished=plan.now, error="no agent took it in time")
    end_run(plan.writes, held, policy, failed, plan.now, plan.reader)


def _why_expired(run: Run, policy: Policy) -> str:
    executor = executor_of(run)
    if executor is None:
        return "the agent that took it did not finish in time"
    return f"timed out after {(policy.timeout or 0) / SECOND:g} s on {executor}"
