"""How processes are stopped, end, and are taken over by the next supervisor. Standard library only."""
