"""The MCP interface for agents: a server that offers the tools, resources and prompts of the kinds."""
