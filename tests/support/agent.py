"""An agent simulated by a test: it calls tools as the server would, without any transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.engine.kind import Caller
from duetime.kinds import load_specs
from duetime.mcp.catalog import catalog_of
from duetime.mcp.definitions import Reply, Resource
from duetime.mcp.schemas import checked
from duetime.service.services import Call, Services

CATALOG = catalog_of(load_specs().values())
TOOLS = {tool.name: tool for tool in CATALOG.tools}
RESOURCES = CATALOG.resources


class Agent:
    def __init__(self, services: Services, caller: Caller, zone: str | None = None) -> None:
        self.call = Call(services, caller, zone or services.zone)

    def use(self, tool: str, given: Mapping[str, Any] | None = None, **more: Any) -> Reply:
        """Call a tool. `given` is for arguments that Python cannot name, such as `from`."""
        chosen = TOOLS[tool]
        return chosen.answer(self.call, checked(chosen.input, {**(given or {}), **more}))

    def hears(self, tool: str, given: Mapping[str, Any] | None = None, **more: Any) -> str:
        """Return the text of an answer."""
        words = self.use(tool, given, **more).text
        assert words is not None
        return words

    def knows(self, tool: str, given: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Return the structured content of an answer, which has to match the tool's schema."""
        structured = dict(self.use(tool, given, **more).structured)
        assert set(structured) <= set(TOOLS[tool].output["properties"])
        return structured

    def reads(self, uri: str) -> dict[str, Any] | None:
        resource, hole = self._resource(uri)
        return resource.read(self.call, hole)

    def digest(self, uri: str) -> object:
        resource, hole = self._resource(uri)
        assert resource.digest is not None
        return resource.digest(self.call, hole)

    def _resource(self, uri: str) -> tuple[Resource, str]:
        return next((each, hole) for each in RESOURCES if (hole := each.match(uri)) is not None)
