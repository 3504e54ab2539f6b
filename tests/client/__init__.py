"""The Python client: its pure parts, its operations on a real server, and what it survives."""
