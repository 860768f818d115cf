"""The main face: three families of tools that agents reach over MCP."""
