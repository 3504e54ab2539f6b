"""What is kept on disk, as the server sees it: the output logs (read only) and the registry (an index)."""
