"""Steps of store transactions: create schedules and follow-ups, record finished runs, and claim due ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import NO_RUN, DueEntry, EventRow, Run, RunId, ScheduleId, WorkerId
from duetime.engine.outcome import Returned
from duetime.engine.policy.bulk import begin_all
from duetime.engine.policy.catch_up import Answers, Question
from duetime.engine.policy.claim import Claim, DueItem, plan_claims
from duetime.engine.policy.fair_share import Budget, Head, Turns, deal, deal_rest, hold_back, hour_of
from duetime.engine.policy.finish import HeldRun
from duetime.engine.policy.follow_ups import Messenger, drafts_of
from duetime.engine.policy.record import Finished, Receipt, plan_settlement
from duetime.engine.policy.rows import Draft, Writes
from duetime.engine.store import ClaimRequest, Creation
from duetime.engine.store_interfaces import SentEvent
from duetime.stores.incidents import apply_further
from duetime.stores.transaction import LockedRun, OwnerKey, Transaction, is_soon


def key_of(draft: Draft) -> OwnerKey:
    return draft.definition.owner, draft.definition.key


def known_by_key(tx: Transaction, drafts: Sequence[Draft]) -> dict[OwnerKey, Creation]:
    """Return what was created earlier with the drafts' keys, by a repeated request or one whose acknowledgement was
    lost."""
    schedules = tx.by_keys([key_of(draft) for draft in drafts])
    return {key: Creation(schedule, fresh=False) for key, schedule in schedules.items()}


def fresh_of(drafts: Sequence[Draft], known: Mapping[OwnerKey, Creation]) -> list[Draft]:
    """Return the first draft of every key that has not created anything yet."""
    firsts: dict[OwnerKey, Draft] = {}
    for draft in drafts:
        if key_of(draft) not in known:
            firsts.setdefault(key_of(draft), draft)
    return list(firsts.values())


def apply(
    tx: Transaction, writes: Writes, now: Instant, messenger: Messenger | None, worker: WorkerId | None = None
) -> None:
    """Apply writes and create their follow-ups in the same transaction, so that neither exists without the other.
    `worker` is the worker that plans occurrences."""
    tx.apply(writes, now)
    if writes.events:
        tx.events += writes.events
    if writes.further:
        apply_further(tx, writes.further, now, worker)
    for run in writes.runs_gone:
        tx.send("delete_range", run)
    if writes.ended:
        _store_ends(tx, writes.ended, now)
    if writes.follow_ups:
        _create_follow_ups(tx, drafts_of(writes.follow_ups, messenger, now))


def _create_follow_ups(tx: Transaction, drafts: Sequence[Draft]) -> None:
    fresh = fresh_of(drafts, known_by_key(tx, drafts)) if drafts else []
    if fresh:  # an alert that was already sent today is recognized by its key and not repeated
        fresh.sort(key=key_of)  # in a fixed order, so that two transactions with the same follow-ups cannot deadlock
        ids = tx.new_schedule_ids(len(fresh))
        tx.insert_schedules(begin_all(fresh, ids))
        tx.announce()


def insert_events(tx: Transaction, events: Sequence[EventRow]) -> list[SentEvent]:
    """Store events that were counted within an open transaction. One whose key is known is not stored again."""
    stored = []
    for event, row in zip(events, tx.rows_of_all("insert_event", [event[1:7] for event in events]), strict=True):
        if not row:
            tx.send("add_to_events", -1, event.owner)
        stored.append(SentEvent((row or tx.rows("event_by_key", *event[1:4]))[0][0], duplicate=not row))
    return stored


def _store_ends(tx: Transaction, events: Sequence[EventRow], now: Instant) -> None:
    """Store the ends of runs that a schedule follows, so that it runs next."""
    events = [event for event in events if tx.rows("listeners", event.owner, json.dumps([event.name]), 0, 1)]
    for owner, number in sorted(Counter(event.owner for event in events).items()):
        tx.send("count_events", owner, now // MINUTE, 0, number)
    if events:
        insert_events(tx, events)
        tx.announce(at_once=True)
        tx.has_events = True


# The two halves of an exchange: record finished runs, and claim due ones within the limits of their owners.


def settle(
    tx: Transaction,
    worker: WorkerId,
    now: Instant,
    finished: Sequence[Finished],
    known: Mapping[RunId, Claim],
    messenger: Messenger | None,
) -> tuple[list[Receipt], bool]:
    """Record outcomes. Return the answers, and whether something became due, such as a queued run."""
    runs = [item.run for item in finished]
    remembered = all(map(known.__contains__, runs))
    held = _update_known(known, tx.holdings(runs)) if remembered else tx.held(runs)
    writes, answers = plan_settlement(held, finished, worker, now, tx)
    apply(tx, writes, now, messenger)
    return answers, is_soon(writes.due_new, now)


def answers_of(finished: Sequence[Finished], rest: Sequence[Finished], answers: Sequence[Receipt]) -> list[Receipt]:
    """Return the answers in the order of `finished`: everything that is not in `rest` was recorded."""
    decided = dict(zip([item.run for item in rest], answers, strict=True))
    return [decided.get(item.run, Receipt.RECORDED) for item in finished]


def _update_known(known: Mapping[RunId, Claim], holdings: Sequence[LockedRun]) -> dict[RunId, HeldRun]:
    """Return the remembered claims, updated with what may have changed since. A definition that was edited meanwhile
    applies to the next run; this run ends under the policy with which it began."""
    held = {}
    for holding in holdings:
        run, definition, _ = known[holding.run]
        if (run.status, run.fence, run.worker, run.stop) != holding[1:5]:
            run = run._replace(status=holding.status, fence=holding.fence, worker=holding.worker, stop=holding.stop)
        held[holding.run] = HeldRun(run, definition, holding.progress)
    return held


def not_beyond(
    server_time: Instant | None, now: Instant, wants: Sequence[ClaimRequest]
) -> tuple[Instant, Sequence[ClaimRequest]]:
    """Return now and the claim requests, limited by the store's own clock if any request is bound by it. Now is limited
    as well, because a plan with a later time would catch up on occurrences that have not come yet."""
    if server_time is None or not any(want.server_bound for want in wants):
        return now, wants
    bound = [want._replace(until=min(want.until, Instant(server_time + want.lead))) for want in wants]
    return min(now, server_time), bound


def take(
    tx: Transaction,
    worker: WorkerId,
    now: Instant,
    wants: Sequence[ClaimRequest],
    budget: Budget | None,
    answers: Answers | None,
    messenger: Messenger | None,
    unrecorded: Collection[ScheduleId] = (),
    careful: bool = True,
) -> tuple[list[Claim], int, list[Question]]:
    entries = _due_entries(tx, wants)
    if unrecorded:
        entries = [entry for entry in entries if not entry.progress.active or entry.due.schedule not in unrecorded]
    seen = len(entries)
    if entries and budget is not None:
        entries = _affordable(tx, entries, budget, now)
    if not entries:
        return [], seen, []
    plan = plan_claims(entries, worker, now, tx.new_run_id, tx, None, answers)
    postponed = plan.postponed
    conflicts = tx.insert_runs(plan.writes.new_runs, careful)
    if conflicts:  # rare: the clock was ahead earlier
        left = {question.schedule for question in postponed}
        entries = [entry for entry in entries if entry.due.schedule not in left or entry.due.run != NO_RUN]
        plan = plan_claims(entries, worker, now, tx.new_run_id, tx, _taken_instants(tx, entries, conflicts), answers)
        conflicts = tx.insert_runs(plan.writes.new_runs)
    if conflicts:
        raise RuntimeError(f"two runs for one occurrence were planned: {conflicts[0].schedule} at {conflicts[0].due}")
    apply(tx, plan.writes, now, messenger, worker)
    return plan.claims, seen, postponed


def given_back(finished: Sequence[Finished], answers: Sequence[Receipt], known: Mapping[RunId, Claim]) -> list[Claim]:
    """Return the claims that were released without being run; their owners are not charged for them."""
    pairs = zip(finished, answers, strict=True)
    return [
        known[item.run]
        for item, answer in pairs
        if type(item.outcome) is Returned and answer is Receipt.RECORDED and item.run in known
    ]


def charge(
    tx: Transaction, now: Instant, claims: Sequence[Claim], given_back: Sequence[Claim], exempt: frozenset[str]
) -> None:
    """Charge owners for their claims, in sorted order so that two workers cannot deadlock on these rows."""
    runs = Counter([claim.definition.owner for claim in claims])
    runs.subtract([claim.definition.owner for claim in given_back])
    for owner in sorted(runs.keys() - exempt):
        if runs[owner]:
            tx.send("use", owner, hour_of(now), runs[owner])


NEAR_LIMIT = 5_000
"""An owner is locked if it has this many runs or fewer left before its limit; concurrent workers claim fewer than
that."""


def _affordable(tx: Transaction, entries: Sequence[DueItem], budget: Budget, now: Instant) -> list[DueItem]:
    """Return the entries that their owners may still run. Lock owners near their limit, in order, so that two workers
    cannot exceed it."""
    owners = sorted({entry.definition.owner for entry in entries} - budget.exempt)
    if not owners:
        return list(entries)
    used = tx.usages(owners, hour_of(now))
    near = [owner for owner in owners if used[owner] > budget.limit - NEAR_LIMIT]
    for owner in near:
        tx.lock_owner(owner)
    if near:
        used |= tx.usages(near, hour_of(now))
    admitted, writes = hold_back(entries, used, budget.limit, now)
    tx.apply(writes, now)
    return admitted


def _due_entries(tx: Transaction, wants: Sequence[ClaimRequest]) -> list[DueItem]:
    """Return due entries in the order of the requests; a lane requested twice yields its entries once."""
    entries: dict[DueEntry, DueItem] = {}
    taken: Counter[str] = Counter()
    served: Counter[tuple[str, str]] = Counter()
    lanes = tx.due_lanes(wants)
    for want in wants:
        if want.lane not in lanes:
            continue
        used = 0
        if taken and want.share:
            used = sum(number for share, number in taken.items() if share.startswith(want.share))
        rest = want._replace(limit=want.limit - used) if used else want
        own = _of_lane(tx, rest, lanes[want.lane], served) if rest.limit > 0 else []
        if own:
            taken[want.share] += len(own)
            entries.update({entry[0]: entry for entry in own})
    return list(entries.values())


def _of_lane(
    tx: Transaction, want: ClaimRequest, heads: Sequence[Head], served: Counter[tuple[str, str]]
) -> list[DueItem]:
    if want.turns is None:
        return tx.due_entries(want)
    turns = _still(want.turns, served)
    entries = tx.due_entries(want) if turns.by_time else _in_turns(tx, want, heads, turns)
    numbers = _by_owner(entries)
    if turns.by_time and any(number > turns.left_for(owner) for owner, number in numbers.items()):
        entries = _within(entries, turns)
        numbers = _by_owner(entries)
    for owner, number in numbers.items():
        served[want.turns.group, owner] += number
    return entries


def _still(turns: Turns, served: Mapping[tuple[str, str], int]) -> Turns:
    """Return the turns, reduced by what this transaction has already given to owners in other lanes of the group."""
    less = {owner: turns.left_for(owner) - number for (group, owner), number in served.items() if group == turns.group}
    return turns._replace(most={**turns.most, **less}) if less else turns


def _within(entries: list[DueItem], turns: Turns) -> list[DueItem]:
    number: Counter[str] = Counter()
    admitted = []
    for entry in entries:
        number[entry.due.owner] += 1
        if number[entry.due.owner] <= turns.left_for(entry.due.owner):
            admitted.append(entry)
    return admitted


def _by_owner(entries: Sequence[DueItem]) -> Counter[str]:
    return Counter([entry[0][4] for entry in entries])  # by index: names cost twice as much, and every run comes here


def _in_turns(tx: Transaction, want: ClaimRequest, heads: Sequence[Head], turns: Turns) -> list[DueItem]:
    """Take entries in queue order if one owner has all of them; with several owners, each gets a share."""
    dealt = deal(heads, want.limit, turns)
    if len(heads) == 1 or not dealt:
        return tx.due_entries(want._replace(limit=sum(dealt.values()))) if dealt else []
    entries = tx.due_entries_of(want, [(owner, number, 0) for owner, number in dealt.items()])
    if len(entries) < want.limit:
        got = Counter(entry.due.owner for entry in entries)
        more = [head for head in heads if head.owner in dealt and got[head.owner] == dealt[head.owner]]
        rest = deal_rest(more, want.limit - len(entries), turns, dealt)
        if rest:
            entries += tx.due_entries_of(want, [(owner, number, dealt[owner]) for owner, number in rest.items()])
    return sorted(entries, key=lambda entry: entry.due[1:4])


def _taken_instants(
    tx: Transaction, entries: Sequence[DueItem], conflicts: Sequence[Run]
) -> dict[ScheduleId, frozenset[Instant]]:
    """Return, for the schedules in conflict, every occurrence from the next one on that has a row."""
    troubled = {run.schedule for run in conflicts}
    firsts = {entry.progress.schedule: entry.progress.next for entry in entries if entry.due.schedule in troubled}
    return {schedule: tx.taken_since(schedule, first) for schedule, first in firsts.items() if first is not None}
