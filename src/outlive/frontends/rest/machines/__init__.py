"""The paths about machines: nodes, their files, and what is dropped onto terminals."""
