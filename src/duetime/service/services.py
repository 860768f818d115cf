"""`Services`, which every interface works with: scheduler, tasks, notifications, and warnings if nothing would fire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from duetime.engine.kind import Caller
from duetime.engine.model import Definition
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.scheduler import Scheduler
from duetime.kinds.notifications.local import LocalNotifications
from duetime.kinds.notifications.service import NotificationService
from duetime.service.presenters import Idle, idleness
from duetime.settings.sections import INBOX


class Inboxes(NamedTuple):
    """Agents whose due prompts wait until one takes them, and the owner whose heartbeat takes them automatically."""

    names: frozenset[str] = frozenset({INBOX})
    heartbeat_of: str | None = None


class Services:
    def __init__(
        self,
        scheduler: Scheduler,
        describe_tasks: Callable[[Caller], list[dict[str, Any]]],
        notifications: NotificationService | None = None,
        inboxes: Inboxes | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.inboxes = inboxes or Inboxes()
        self.notifications = notifications or LocalNotifications(scheduler)
        self.zone = scheduler.zone
        self._describe_tasks = describe_tasks

    def tasks(self, caller: Caller) -> list[dict[str, Any]]:
        return self._describe_tasks(caller)

    def warnings(self, kind: str | None = None) -> list[str]:
        """Return why schedules of this kind, or of any kind, might not fire."""
        match idleness(self.scheduler.workers(), self.scheduler.clock.now(), kind):
            case Idle.NOBODY:
                return ["No worker is running, so nothing fires until one does: run `duetime service install`."]
            case Idle.OTHERS:
                return [f"No worker that is running takes a {kind}, so it does not fire until one does."]
            case Idle.SESSIONS:
                return ["It fires only while an agent client is open: run `duetime service install` to have it always."]
            case None:
                return []

    def result_warnings(self, definition: Definition) -> list[str]:
        """Return warnings if run results are delivered to a topic that reaches nobody, such as a mistyped channel."""
        topic = policy_for_ending(definition.policy).deliver_to
        told = [] if topic is None else self.notifications.warnings(topic, definition.owner)
        return [f"deliver_to: {each}" for each in told]
