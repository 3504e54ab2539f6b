"""Watching the engine: logs now, metrics and audit later; subscribers of its events, connected by `app`."""
