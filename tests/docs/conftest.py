"""Fixtures of the documentation's tests."""
