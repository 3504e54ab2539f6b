"""From a command to a process: what it resolves to, what bounds it, what is noted down of it, and what became of it."""
