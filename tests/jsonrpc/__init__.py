"""The JSON-RPC over WebSocket door from outside: real server, real processes, every promise of S0."""
