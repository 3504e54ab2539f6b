"""Fixtures of the canary's test."""
