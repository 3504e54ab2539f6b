"""Attacks on a real server, each with the refusal that it has to meet."""
