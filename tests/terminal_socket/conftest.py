"""Fixtures of the terminal door's tests."""
