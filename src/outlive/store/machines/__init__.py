"""What is kept of other machines: the nodes of this server, and the servers that this machine has joined."""
