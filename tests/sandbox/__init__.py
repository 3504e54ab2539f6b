"""What bounds a command: profiles as the command itself meets them, limits, secrets that no file holds."""
