"""A shared terminal as bytes and values: what is typed, what marks say, what a screen shows."""
