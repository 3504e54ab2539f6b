"""What is shown of output that is too long."""
