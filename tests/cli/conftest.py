"""Fixtures of the command line's tests."""

from tests.support.fixtures import gate

__all__ = ["gate"]
