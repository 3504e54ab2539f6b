"""Fixtures of the terminal door's tests."""

from tests.support.fixtures import anyio_backend, gate, own_server, serve, server

__all__ = ["anyio_backend", "gate", "own_server", "serve", "server"]
