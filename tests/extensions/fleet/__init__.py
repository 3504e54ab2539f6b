"""Nodes: other servers on which commands run, and those that dial in."""
