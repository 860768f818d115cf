"""MCP over HTTP as plain requests, in the stateless era of the protocol: all that the lines need of it."""

from __future__ import annotations

import json
from typing import Any

from scorecard.serving import Client, Server

ERA = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": ERA,
    "io.modelcontextprotocol/clientInfo": {"name": "scorecard", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class McpClient:
    """The agent of one owner."""

    def __init__(self, server: Server, owner: str) -> None:
        self.http: Client = server.client(owner)
        self.http.headers |= {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": ERA}

    def ask(self, method: str, params: dict[str, Any] | None = None, name: str | None = None) -> str:
        """Return the answering message as JSON text; raise when the server itself failed."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": META}}
        routing = {"Mcp-Method": method} | ({} if name is None else {"Mcp-Name": name})
        reply = self.http.ask("POST", "/mcp", body, routing)
        if reply.status >= 500:
            raise RuntimeError(f"{reply.status} {reply.text[:200]}")
        events = [line.removeprefix("data:").strip() for line in reply.text.splitlines() if line.startswith("data:")]
        return next((event for event in reversed(events) if event), reply.text)

    def tools(self) -> list[dict[str, Any]]:
        return list(json.loads(self.ask("tools/list"))["result"]["tools"])

    def call(self, tool: str, arguments: Any) -> str:
        return self.ask("tools/call", {"name": tool, "arguments": arguments}, tool)

    def made(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured content of a call that has to succeed."""
        result = json.loads(self.call(tool, arguments))["result"]
        if result.get("isError") or "structuredContent" not in result:
            raise RuntimeError(f"{tool} answered {str(result)[:300]}")
        return dict(result["structuredContent"])

    def templates(self) -> list[str]:
        listed = json.loads(self.ask("resources/templates/list"))["result"]["resourceTemplates"]
        return [each["uriTemplate"] for each in listed]

    def read(self, uri: str) -> str:
        return self.ask("resources/read", {"uri": uri}, uri)
