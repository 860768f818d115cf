"""What is built from a release besides the wheel: the MCP bundle, the registry entry, the Claude Code plugin."""
