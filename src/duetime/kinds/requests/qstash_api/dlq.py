"""The dead letter queue: messages whose attempts are used up, until somebody retries or removes them."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.engine.kind import Caller
from duetime.engine.model import Run, RunStatus
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.kinds.requests.qstash_api.call import Answer, Asking, Refused, not_found, not_offered, value_of
from duetime.kinds.requests.qstash_api.filters import Filter, Source, walk
from duetime.kinds.requests.qstash_api.headers import PREFIX
from duetime.kinds.requests.qstash_api.lookup import Failure, Finder
from duetime.kinds.requests.qstash_api.views import View, dlq_view
from duetime.kinds.requests.wire import message_id

MOST = 100
MOST_AT_ONCE = 1000
"""Maximum messages removed or retried by a filter in one call; clients with more repeat the call."""
_NOT_SETTINGS = (f"{PREFIX}telemetry-",)


class DeadLetters:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._finder = scheduler, Finder(scheduler)

    def listed(self, asking: Asking) -> Answer:
        wanted = Filter(asking.query)
        rows, cursor = self._rows(asking, wanted, wanted.count(MOST))
        return Answer({"messages": rows, **({} if cursor is None else {"cursor": cursor})})

    def _rows(self, asking: Asking, wanted: Filter, count: int) -> tuple[list[View], str | None]:
        oldest_first = asking.query.get("order", [""])[-1] != "latestFirst"
        caller = asking.caller
        source = Source(
            lambda at, limit: self._finder.runs(
                caller, status=str(RunStatus.FAILED), oldest_first=oldest_first, cursor=at, limit=limit
            ),
            lambda run: self._shown(caller, run),
        )
        return walk([source], wanted.cursor, count, wanted.fits)

    def _shown(self, caller: Caller, run: Run) -> list[View]:
        found = self._finder.failure(caller, run)
        return [] if found is None else [dlq_view(*found, caller.depth)]

    def get(self, asking: Asking) -> Answer:
        return Answer(dlq_view(*self._failed(asking), asking.caller.depth))

    def _failed(self, asking: Asking) -> Failure:
        id: str = asking.path["dlq_id"]
        found = self._finder.failed(asking.caller, id)
        if found is None:
            raise not_found("DLQ message", id)
        return found

    # -- removing and retrying ------------------------------------------------------------------------------------

    def delete(self, asking: Asking) -> Answer:
        value_of(self._scheduler.dismiss(asking.caller, self._failed(asking).run.id))
        return Answer()

    def delete_many(self, asking: Asking) -> Answer:
        done = [self._scheduler.dismiss(asking.caller, each.run.id) for each in self._chosen(asking)]
        return Answer({"deleted": sum(not isinstance(each, Err) for each in done)})

    def retry(self, asking: Asking) -> Answer:
        _refuse_settings(asking)
        found = self._failed(asking)
        value_of(self._scheduler.retry(asking.caller, found.run.id))
        return Answer(_retried(found))

    def retry_many(self, asking: Asking) -> Answer:
        _refuse_settings(asking)
        chosen = self._chosen(asking)
        done = [each for each in chosen if not isinstance(self._scheduler.retry(asking.caller, each.run.id), Err)]
        return Answer({"responses": [_retried(each) for each in done]})

    def _chosen(self, asking: Asking) -> Sequence[Failure]:
        """Return the failures that are named or match the filter; selecting all requires `all=true`."""
        ids = asking.ids("dlqIds")
        wanted = Filter(asking.filters("dlqIds")).must_be_known()
        if ids is None:
            if wanted.is_empty and asking.query.get("all") != ["true"]:
                raise Refused(400, "give dlqIds, a filter, or all=true")
            ids = [row["dlqId"] for row in self._rows(asking, wanted, MOST_AT_ONCE)[0]]
        found = [self._finder.failed(asking.caller, each) for each in dict.fromkeys(ids)]
        return [each for each in found if each is not None]


def _retried(found: Failure) -> View:
    """Return the id of the message, which a retry keeps so that a receiver can recognize repeats."""
    return {"messageId": message_id(found.schedule.definition.public_id, found.run.id)}


def _refuse_settings(asking: Asking) -> None:
    for name in asking.headers:
        if name.startswith(PREFIX) and not name.startswith(_NOT_SETTINGS):
            raise not_offered(f"{name}: changing a message while it is retried is")
