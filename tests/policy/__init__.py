"""Decisions about commands: the shell grammar and the operator's list."""
