"""Sockets, HTTP and WebSocket connections, and the pages that the server itself answers."""
