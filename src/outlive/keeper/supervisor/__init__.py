"""The supervisor: the one writer of output, and the parts that it is built from. Standard library only."""
