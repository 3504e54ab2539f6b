"""What is kept on disk, as the server sees it: the output logs (read only) and the registry (an index)."""

__all__: list[str] = []
