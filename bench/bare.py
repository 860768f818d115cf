"""The least that the SDK does over stdio: one trivial tool."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("bare")


@server.tool()
def trivial(job_id: str) -> dict[str, str]:
    """Answers with what it was given."""
    return {"job_id": job_id}


if __name__ == "__main__":
    server.run("stdio")
