"""What is asked of terminals, and what is typed into one. Pure."""
