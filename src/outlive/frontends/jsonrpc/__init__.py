"""The JSON-RPC door: `ws://<host>/ws/mcp`, promises S0.1-S0.21.

`door` is what the application builds; `sessions` keeps what outlives a socket, `connection` speaks over one
socket, `methods` and `verbs` answer requests, `subscription` says what comes next of a process, `readers` cut its bytes
into messages. When they are sent, and how, are `frontends.follower` and `frontends.outbox`. Messages as bytes are `protocols.jsonrpc`; starting and remembering processes is the engine.
"""

from outlive.frontends.jsonrpc.door import JsonRpcFrontend
from outlive.frontends.jsonrpc.sessions import JsonRpcSettings

__all__ = ["JsonRpcFrontend", "JsonRpcSettings"]
