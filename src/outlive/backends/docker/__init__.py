"""Processes in containers: a small runner inside each, and descriptors passed to it, so that no byte crosses the daemon."""

__all__: list[str] = []
