"""MCP over standard input and output: `outlive mcp`, a relay to the running server's MCP endpoint.

`relay` moves messages between the host's pipes and the server, and keeps the MCP session; `messages` reads
what a message needs for its way, and makes one POST over the Unix socket of the server that `discovery`
finds. Standard library and threads only: a host waits for the first answer, and importing asyncio alone takes
as long as all of this.
"""
