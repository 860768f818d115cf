"""Upcoming occurrences, the status of the installation and its workers, from Python."""

from __future__ import annotations

from typing import cast

from duetime.api.base import Base
from duetime.api.types import ServerStatus, Time, Upcoming, Workers
from duetime.service.kind_spec import Window
from duetime.service.presenters import worker_shape
from duetime.service.services import Call
from duetime.service.status import status
from duetime.service.upcoming import upcoming


class Overview(Base):
    def upcoming(
        self,
        *,
        start: Time | None = None,
        until: Time | None = None,
        kind: str | None = None,
        topic: str | None = None,
        include_paused: bool = False,
        count: int = 20,
    ) -> Upcoming:
        """Return the next `count` occurrences in a range, of one kind or of all kinds.

        `topic` selects schedules that send or report to it.
        """
        window = Window(
            now=self.scheduler.clock.now(),
            count=count,
            start=self._time(start, "start"),
            until=self._time(until, "until", last=True),
            kinds=None if kind is None else (kind,),
            topic=topic,
            include_paused=include_paused,
        )
        rows, more, later, warnings = upcoming(self.app.services, self.caller, window, self.zone)
        return cast("Upcoming", {"upcoming": rows, "more": more, "later": later, "warnings": warnings})

    def workers(self) -> Workers:
        """Return the workers of this store and whether each is alive."""
        now = self.scheduler.clock.now()
        return cast("Workers", [worker_shape(each, now, self.zone) for each in self.scheduler.workers()])

    def server_status(self) -> ServerStatus:
        """Return what is set up, whether it works, usage and failures, with an explanation of each warning."""
        return cast("ServerStatus", status(Call(self.app.services, self.caller, self.zone)))
