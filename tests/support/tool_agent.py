"""An agent that is a program: it calls the tools that its prompt names, one on each line, and prints their answers."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

_CALL = re.compile(r"^call (\w+) (\{.*\})$", re.MULTILINE)


async def answers(server: dict[str, Any], prompt: str) -> list[str]:
    async with (
        httpx2.AsyncClient(headers=server["headers"], timeout=20.0) as http,
        Client(streamable_http_client(server["url"], http_client=http), read_timeout_seconds=20.0) as client,
    ):
        found = [await client.call_tool(name, json.loads(given)) for name, given in _CALL.findall(prompt)]
    return [part.text for result in found for part in result.content if part.type == "text"]


def main() -> None:
    prompt = sys.stdin.read()
    servers = json.loads(Path(os.environ["DUETIME_MCP_CONFIG"]).read_text())["mcpServers"]
    said = anyio.run(answers, servers["tools"], prompt) if "tools" in servers else ["no further tools"]
    json.dump({"text": "\n".join(said), "outcome": {"servers": sorted(servers)}}, sys.stdout)


if __name__ == "__main__":
    main()
