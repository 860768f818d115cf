"""Use Duetime's tools over MCP from an agent framework (Pydantic AI): `python agent_framework.py "Remind me ..."`

Requires `pip install "duetime[agent]"` and a model's API key: ANTHROPIC_API_KEY, or MODEL and its vendor's variable.
"""

from __future__ import annotations

import asyncio
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

MODEL = os.environ.get("MODEL", "anthropic:claude-sonnet-5-5")


async def main(request: str) -> None:
    # Over HTTP: MCPToolset("http://127.0.0.1:8765/mcp", headers={"Authorization": "Bearer ..."}).
    server = StdioTransport(sys.executable, ["-m", "duetime", "mcp"], env=dict(os.environ))
    toolset = MCPToolset(server, init_timeout=60)
    agent = Agent(MODEL, toolsets=[toolset], instructions="Answer in one sentence, with the local time.")
    async with agent:
        result = await agent.run(request)
    print(result.output)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What is scheduled?"))
