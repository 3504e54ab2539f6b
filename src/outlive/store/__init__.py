"""What is kept on disk, as the server sees it: the output logs (only read here) and the registry (an index).

The process folders are the truth, and the keeper writes them. What is decided with this data is the engine's.
"""
