"""MCP: `http` and `stdio` are its two transports, `tools` what both offer."""
