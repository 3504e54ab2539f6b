"""The methods about machines: nodes, and their files."""
