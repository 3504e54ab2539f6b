"""The Docker backend: containers are made, found again and removed here; the commands inside them belong to the keeper.

The daemon makes, inspects and removes containers, and carries a stream only where no socket reaches a container
(`stream_transport`).
"""
