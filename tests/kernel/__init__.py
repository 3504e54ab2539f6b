"""What the kernel is asked."""
