"""`outlive install`: each MCP host's file, the editors of its formats, and the hosts' own programs."""
