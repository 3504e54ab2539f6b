"""The guardian and the shims that it makes. Standard library only."""
