"""Builds what a release has besides the wheel: the MCP bundle, the registry entry, the Claude Code plugin."""
