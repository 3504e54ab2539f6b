"""The Docker backend: containers are made, found again and removed here.

The commands inside them belong to the keeper.

The daemon makes, inspects and removes containers, and carries no output.
"""
