"""The MCP tools and resources for notifications."""
