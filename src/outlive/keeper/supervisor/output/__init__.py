"""How output gets from pipes and terminals into the logs. Standard library only."""
