"""Searching output logs: one log in the order of writing (`log_search`), or for all of them (`line_search`),
and the lines around a match.
"""
