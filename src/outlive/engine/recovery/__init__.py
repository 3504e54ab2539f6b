"""What was before this server, and what is kept: processes found again, the registry, retention, the disk."""
