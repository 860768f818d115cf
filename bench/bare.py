"""A minimal MCP server over stdio with one trivial tool, for comparison."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("bare")


@server.tool()
def trivial(job_id: str) -> dict[str, str]:
    """Return the argument unchanged."""
    return {"job_id": job_id}


if __name__ == "__main__":
    server.run("stdio")
