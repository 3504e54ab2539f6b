"""Features beside the core, a folder each, which the core imports late."""
