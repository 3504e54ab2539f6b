"""Fixtures of the documentation's tests."""

from tests.support.fixtures import anyio_backend, client, server

__all__ = ["anyio_backend", "client", "server"]
