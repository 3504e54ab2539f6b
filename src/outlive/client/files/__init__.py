"""Copying files between this machine, the server's and its nodes, from the client's side."""
