"""JSON-RPC 2.0 over WebSocket as bytes and values: requests, parameters, answers, output. No I/O.

Source: promises S0.1-S0.21. Sockets and tasks are in `frontends.jsonrpc`.
"""
