"""Placement: which node suits, and which command is next."""
