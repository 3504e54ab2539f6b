"""Fixtures of the canary's test."""

from tests.support.fixtures import anyio_backend, gate, serve

__all__ = ["anyio_backend", "gate", "serve"]
