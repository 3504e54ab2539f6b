"""MCP over standard input and output: `outlive mcp`, a relay to the running server's MCP door.

`relay` moves messages; `messages` tells what one needs to know of them, `handshake` keeps the MCP session, `exchange` is
one POST over the Unix socket of the server that `discovery` finds, `pipes` holds stdin and stdout. Standard
library and threads only: a host waits for the first answer, and asyncio alone takes as long to import as all of this.
"""
