"""The store: what is read back from the folders, and the registry."""
