"""Fixtures of the fleet's tests."""

from tests.engine.conftest import engine, shared_house
