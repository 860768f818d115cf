"""An agent that is a program: it opens its MCP configuration, calls two tools, and prints what it saw."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PATIENCE = 60.0
"""Seconds for an answer, of which the first one comes when the server has started: late on a busy machine."""


async def over_http(server: dict[str, Any]) -> dict[str, Any]:
    async with (
        httpx2.AsyncClient(headers=server["headers"], timeout=PATIENCE) as http,
        Client(streamable_http_client(server["url"], http_client=http), read_timeout_seconds=PATIENCE) as client,
    ):
        return await talk(client)


async def over_stdio(server: dict[str, Any]) -> dict[str, Any]:
    parameters = StdioServerParameters(command=server["command"], args=server["args"], env=server["env"])
    async with Client(parameters, read_timeout_seconds=PATIENCE) as client:
        return await talk(client)


async def talk(client: Client) -> dict[str, Any]:
    listed = await client.call_tool("schedule_list", {"status": "all"})
    made = await client.call_tool("schedule", {"prompt": "look again", "at": "2031-02-10 3:00 PM"})
    return {"listed": listed.structured_content, "made": made.structured_content}


def main() -> None:
    prompt = sys.stdin.read()
    server = json.loads(Path(os.environ["DUETIME_MCP_CONFIG"]).read_text())["mcpServers"]["duetime"]
    seen = anyio.run(over_stdio if server["type"] == "stdio" else over_http, server)
    about = {"type": server["type"], "prompt": prompt, "variables": sorted(os.environ), "folder": str(Path.cwd())}
    # It prints everything that it knows; secrets that it was given must be redacted by the code that stores the output.
    json.dump({"text": f"Looked with {json.dumps(server)}", "outcome": {**seen, **about}}, sys.stdout)


if __name__ == "__main__":
    main()
