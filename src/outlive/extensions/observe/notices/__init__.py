"""Notices of what happened to processes, by a webhook or a program of the operator's."""
