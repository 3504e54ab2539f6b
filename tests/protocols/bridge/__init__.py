"""The terminal bridge's messages as bytes and values."""
