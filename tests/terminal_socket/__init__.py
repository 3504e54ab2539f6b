"""The terminal door, asked of a running server: /ws/terminal/{process_id}."""
