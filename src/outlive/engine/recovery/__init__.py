"""What was before this server, and what is kept: processes found again, retention, the disk."""
