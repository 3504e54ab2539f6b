"""Fixtures of the JSON-RPC tests."""
