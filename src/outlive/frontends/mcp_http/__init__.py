"""The MCP door over HTTP: `http://<host>/mcp`, promises S4.1-S4.11.

`door` is what the application builds; `endpoint` tells raw callers, handshake revisions and 2026-07-28 apart,
`sessions` signs and checks session ids, `calls` runs and cancels tools, `raw_stream` and `output_events` speak to
raw callers, `sdk` (arriving late through `sdk_loading`) speaks to official clients. The tools are `mcp_tools`.
"""

from outlive.frontends.mcp_http.door import McpHttpDoor
from outlive.frontends.mcp_http.settings import McpHttpSettings

__all__ = ["McpHttpDoor", "McpHttpSettings"]
