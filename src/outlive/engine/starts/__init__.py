"""From a command to a process that runs, or that waits for a person or for its group's turn."""
