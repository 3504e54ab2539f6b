"""Commands that wait: for their group's turn, or for a person's approval."""
