"""Errors that no frontend has answered, in the format that the path's callers expect."""
