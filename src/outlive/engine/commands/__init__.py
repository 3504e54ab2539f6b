"""What a command resolves to, whether it may run, and what bounds it."""
