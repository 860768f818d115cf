"""The notification tools without a transport; arguments are checked as the server checks them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from duetime.app import App
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import Run
from duetime.engine.store import RunQuery
from duetime.kinds import load_specs
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.local import LocalNotifications
from duetime.kinds.notifications.mcp import tools
from duetime.kinds.notifications.service import NotificationService
from duetime.mcp.catalog import catalog_of
from duetime.mcp.definitions import ToolProblem
from duetime.mcp.schemas import checked
from duetime.service.services import Call

START = datetime(2026, 2, 10, 14, 0, tzinfo=UTC)
"""15:00 in Berlin, 06:00 in Los Angeles."""
TOOLS = {tool.name: tool for tool in catalog_of(load_specs().values(), ["notifications"]).tools}
RESOURCES = {resource.uri: resource for resource in tools.RESOURCES}


class Agent:
    """A caller of the tools."""

    def __init__(
        self,
        app: App,
        caller: Caller,
        zone: str = "Europe/Berlin",
        *,
        patience: float = 5.0,
        service: NotificationService | None = None,
    ) -> None:
        self.app = app
        kind = app.services.kind(NotificationKind)
        if service is not None or kind.service.fires_here:
            kind.service = service or LocalNotifications(app.scheduler, patience=patience)
        self.call = Call(app.services, caller, zone)

    def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        chosen = TOOLS[tool]
        structured = dict(chosen.answer(self.call, checked(chosen.input, arguments)).structured)
        assert set(structured) <= set(chosen.output["properties"]), structured
        assert set(chosen.output["required"]) <= set(structured), structured
        return structured

    def problem(self, tool: str, /, **arguments: Any) -> str:
        """Return the text of the tool error that this call causes."""
        try:
            answer = self(tool, **arguments)
        except (ToolProblem, InvalidInput) as problem:  # the server answers both alike
            return str(problem)
        raise AssertionError(f"not refused: {answer}")

    def read(self, uri: str, hole: str = "") -> dict[str, Any] | None:
        return RESOURCES[uri].read(self.call, hole)

    def digest(self, topic: str) -> object:
        look = RESOURCES["schedules://{topic}"].digest
        assert look is not None
        return look(self.call, topic)

    def cron(self, **changes: Any) -> str:
        given = {"message": "hi", "notification_topic": "alerts", "cron": "0 9 * * *", "timezone": "Europe/Berlin"}
        made = self("schedule_cron_notification", **{**given, **changes})
        assert made["success"] is True
        return str(made["schedule_id"])

    def once(self, **changes: Any) -> str:
        when = {} if {"datetime", "time", "delay"} & set(changes) else {"delay": "1h"}
        made = self("schedule_notification", **{"message": "hi", "notification_topic": "alerts", **when, **changes})
        assert made["success"] is True
        return str(made["message_id"])

    def listed(self, **arguments: Any) -> tuple[list[str], list[str]]:
        found = self("list_scheduled_notifications", **arguments)
        assert found["count"] == len(found["schedules"])
        return [row["schedule_id"] for row in found["schedules"]], [row["message_id"] for row in found["messages"]]

    def runs(self) -> list[Run]:
        return self.app.store.runs(RunQuery(owner=self.call.caller.owner)).items
