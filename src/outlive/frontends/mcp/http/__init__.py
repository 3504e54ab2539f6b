"""The MCP door over HTTP: `http://<host>/mcp`, promises S4.1-S4.11.

`door` is what the application builds, and nearly nothing; `service` is what it opens at the first request: `endpoint`
tells raw callers, handshake revisions and 2026-07-28 apart, `sessions` signs and checks session ids, `calls` runs and
cancels tools, `plain_calls` answers what needs no SDK, `raw_stream` and `output_events` speak to raw callers, `sdk`
(arriving late through `sdk_loader`, with `sdk_tasks` for the tasks extension) speaks to official clients. The tools
are `frontends.mcp.tools`.
"""
