"""Commands that run a server, a worker or an MCP connection."""
