"""Fixtures of the JSON-RPC tests."""

from tests.support.fixtures import anyio_backend, client, gate, marker, own_server, serve, server

__all__ = ["anyio_backend", "client", "gate", "marker", "own_server", "serve", "server"]
