"""MCP over HTTP: `http://<host>/mcp`, promises S4.1-S4.11.

`door` is the route; at the first request it opens `endpoint`, which reads the request (`exchange`), checks
what its era asks of it, finds the session (`sessions`) and has it answered by `methods`, the one table for
both eras. `calls` runs and cancels tools; `output_events` streams a raw caller's background command. The
tools are `frontends.mcp.tools`.
"""
