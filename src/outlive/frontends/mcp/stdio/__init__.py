"""MCP over standard input and output: `outlive mcp`, a relay to the running server's MCP endpoint.

`relay` moves messages and keeps the MCP session; `messages` reads what a message needs for its way, `exchange` is one POST over
the Unix socket of the server that `discovery` finds, `pipes` holds stdin and stdout. Standard library and threads only: a host
waits for the first answer, and importing asyncio alone takes as long as all of this.
"""
