"""The MCP tools and resources for prompts."""
