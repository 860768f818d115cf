"""Waiting runs: one holder at a time takes a run under a lease, and the run is returned when the holder is gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from duetime.engine.clock import MINUTE
from duetime.engine.errors import DuetimeError, Refused
from duetime.engine.kind import Caller
from duetime.engine.model import Definition, Run, run_holder
from duetime.engine.outcome import Completed, Failed, Returned
from duetime.engine.policy import checkout
from duetime.engine.policy.decision import Change, Decision, not_possible
from duetime.engine.policy.finish import HeldRun
from duetime.engine.queries import Queries, no_run, with_input
from duetime.engine.redaction import redacted_outcome
from duetime.engine.scopes import WRITE, lacking
from duetime.engine.store import RunInput, RunQuery

LEASE = 15 * MINUTE
"""How long a taken run stays with its holder, unless its schedule sets a timeout."""


class Checkout(Queries):
    """The operations on waiting runs; they are part of the scheduler's API."""

    def take(
        self,
        caller: Caller,
        kind: str,
        subject: str | None = None,
        lease: int = LEASE,
        *,
        least: int = 0,
        accepts: Callable[[Definition], bool] = lambda _: True,
    ) -> HeldRun | None:
        """Take the oldest waiting run of the caller's owner under a lease; return None if none waits.

        Runs of definitions that `accepts` refuses are left to others. Concurrent callers see the same runs; the store
        gives each run to one of them, and the other caller tries the next. An agent's run only gets runs that are less
        deep than what it schedules: otherwise, runs that take each other's work and schedule it again would never end.
        """
        self.check_scopes(caller, WRITE)
        now = self.clock.now()
        query = RunQuery(
            owner=caller.owner,
            kind=kind,
            subject=subject,
            free_at=now,
            depth_below=caller.depth or None,
            oldest_first=True,
            limit=20,
            count_to=0,
        )

        def decide(own: RunInput, change: Change, seen: Run) -> Decision[HeldRun]:
            definition = with_input(change.schedule.definition, own)
            if not accepts(definition) or (caller.scopes and lacking(caller.scopes, *self.needed_scopes(definition))):
                raise not_possible("taken", "kept for others")
            return checkout.take(change._replace(depth=caller.depth), seen, caller.holder, lease, least)

        while True:
            page = self.store.runs(query)
            for run in page.items:
                own = self.own_input(run)
                try:
                    held = self.store.change_run(run.id, now, partial(decide, own))
                except Refused:
                    continue
                return held._replace(definition=with_input(held.definition, own))
            if page.cursor is None:
                return None
            query = replace(query, cursor=page.cursor)

    def take_run(self, caller: Caller, run_id: int, lease: int = LEASE) -> HeldRun:
        """Take one waiting run of the caller's owner under a lease."""
        run = self.run(caller._replace(operator=False), run_id)
        if run is None:
            raise no_run()
        self.check_runs(caller, [run])
        return self.store.change_run(
            run.id,
            self.clock.now(),
            lambda change, seen: checkout.take(change._replace(depth=caller.depth), seen, caller.holder, lease),
        )

    def finish(
        self,
        caller: Caller,
        run_id: int,
        outcome: Completed | Failed | Returned,
        kind: str | None = None,
        *,
        hold: str | None = None,
    ) -> Run:
        """Finish a taken run. Not even an operator may finish another holder's run, who may be working on it."""
        run = self.run(caller._replace(operator=False), run_id)
        if run is None or (kind is not None and run.kind != kind):
            raise checkout.not_yours(run_id)
        if caller.holder != run_holder(run.id, run.fence):  # every run may finish itself
            self.check_runs(caller, [run])
        now = self.clock.now()
        if isinstance(outcome, Failed):  # an agent's error text may quote its payload
            schedule = self.schedule_of(caller, run, deleted=True)
            outcome = redacted_outcome(outcome, "null" if schedule is None else schedule.definition.payload)
        ended = self.store.change_run(
            run.id, now, lambda c, seen: checkout.finish(c, seen, caller.holder, outcome, hold)
        )
        if caller.holder == run_holder(ended.id, ended.fence):
            with suppress(DuetimeError):  # the caller's own run has ended, and its token with it
                self.give_back(caller, run.kind, checkout.LEFT)
        return ended

    def give_back(self, caller: Caller, kind: str, reason: str) -> list[Run]:
        """Return everything the caller holds to waiting, without counting an attempt. A holder calls this when it ends,
        so that others need not wait for its lease to expire."""
        query = RunQuery(owner=caller.owner, kind=kind, holder=caller.holder, oldest_first=True, limit=1000, count_to=0)
        ended = []
        for run in self.store.runs(query).items:
            with suppress(Refused):
                ended.append(self.finish(caller, run.id, Returned(reason), kind))
        return ended
