"""A terminal over WebSocket as bytes and values."""
