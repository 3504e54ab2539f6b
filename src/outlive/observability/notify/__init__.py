"""Notices of what happened to processes, for people and programs that are not connected: webhook and desktop."""
