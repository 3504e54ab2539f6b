"""How many of a group run at once, and what is undecided of the commands that wait."""
