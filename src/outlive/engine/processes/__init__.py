"""What lives: one process, the table of all, and what follows from a change."""
