"""MCP over HTTP: `http://<host>/mcp`, promises S4.1-S4.11.

`door` is the route; at the first request it opens `endpoint`, which reads the request (`requests`), checks the session
(`sessions`), and passes raw callers and handshake revisions to `handshake`, 2026-07-28 to `sdk`. `calls` runs and cancels tools and
answers what needs no SDK; `output_events` streams a raw caller's background command. The tools are `frontends.mcp.tools`.
"""
