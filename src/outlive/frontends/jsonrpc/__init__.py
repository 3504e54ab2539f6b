"""The JSON-RPC door: `ws://<host>/ws/mcp`, promises S0.1-S0.21.

`door` is what the application builds; `sessions` keeps what outlives a socket, `connection` speaks over one
socket. A request goes from `connection` to `methods`, which has the table, and from there to a function of
`starts`, `controls` or `queries`; `context` says what a method is. `subscriptions` says what comes next of a
process, `readers` cuts its bytes into messages; when they are sent, and how, are `server.sender` and
`server.http.websocket_io`. Messages as bytes are `protocols.jsonrpc`.
"""

from outlive.frontends.jsonrpc.door import JsonRpcFrontend

__all__ = ["JsonRpcFrontend"]
