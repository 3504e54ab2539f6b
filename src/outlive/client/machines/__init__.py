"""Other machines, as clients see them: a node that a server asks, and the fleet of a server."""
