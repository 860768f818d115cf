"""The MCP interface for agents: three families of tools, with resources and prompts."""
