"""Handing over what waits to be taken: to one at a time, for a while, and back when whoever took it is gone."""

from __future__ import annotations

from dataclasses import replace

from duetime.engine.clock import MINUTE
from duetime.engine.kind import Caller
from duetime.engine.model import Run, run_holder
from duetime.engine.outcome import Completed, Failed, Returned
from duetime.engine.policy import checkout as taking
from duetime.engine.policy.changes import Change, Decision
from duetime.engine.policy.finish import HeldRun
from duetime.engine.queries import Reading, expected
from duetime.engine.redaction import redacted_outcome
from duetime.engine.result import Ok, Result
from duetime.engine.store import RunQuery

LEASE = 15 * MINUTE
"""How long a run that somebody took stays in their hands, unless its schedule says otherwise."""


class Handing(Reading):
    @expected
    def take(
        self, caller: Caller, kind: str, subject: str | None = None, lease: int = LEASE, *, least: int = 0
    ) -> Result[HeldRun | None]:
        """The oldest waiting run of the caller's owner, in the caller's hands until it expires; None when none waits.

        Two who ask at once see the same runs; the store lets one have each, and the other goes on to the next. An
        agent's run gets only what is less deep than what it schedules: runs that take what such runs stored, and store
        it anew, would have no end otherwise.
        """
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

        def decide(change: Change, seen: Run) -> Decision:
            return taking.take(change._replace(depth=caller.depth), seen, caller.holder, lease, least)

        while True:
            page = self.store.runs(query)
            for run in page.items:
                taken = self.store.change_run(run.id, now, decide)
                if isinstance(taken, Ok):
                    return Ok(taken.value)
            if page.cursor is None:
                return Ok(None)
            query = replace(query, cursor=page.cursor)

    @expected
    def finish(
        self,
        caller: Caller,
        run_id: int,
        outcome: Completed | Failed | Returned,
        kind: str | None = None,
        *,
        hold: str | None = None,
    ) -> Result[Run]:
        """Not even an operator ends what somebody else has taken: whoever has it may be doing it right now."""
        run = self.run(caller._replace(operator=False), run_id)
        if run is None or (kind is not None and run.kind != kind):
            return taking.not_yours(run_id)
        now = self.clock.now()
        outcome = self._redacted(run, outcome)
        ended: Result[Run] = self.store.change_run(
            run.id, now, lambda c, seen: taking.finish(c, seen, caller.holder, outcome, hold)
        )
        if isinstance(ended, Ok) and caller.holder == run_holder(ended.value.id, ended.value.fence):
            self.give_back(caller, run.kind, taking.LEFT)  # its own run is over, and with it the token it works by
        return ended

    def _redacted(self, run: Run, outcome: Completed | Failed | Returned) -> Completed | Failed | Returned:
        """What an agent says of a failure may quote what it was given."""
        if not isinstance(outcome, Failed):
            return outcome
        schedule = self.store.get(run.schedule)
        return redacted_outcome(outcome, "null" if schedule is None else schedule.definition.payload)

    @expected
    def give_back(self, caller: Caller, kind: str, reason: str) -> Result[list[Run]]:
        """All that is in the caller's hands waits again, without an attempt counted. For a holder that ends: others
        need not wait for the end of its lease."""
        query = RunQuery(owner=caller.owner, kind=kind, holder=caller.holder, oldest_first=True, limit=1000, count_to=0)
        ended = [self.finish(caller, run.id, Returned(reason), kind) for run in self.store.runs(query).items]
        return Ok([each.value for each in ended if isinstance(each, Ok)])
