"""The MCP tools against a real engine, without a transport."""
