"""Other machines, as clients see them: the fleet of a server."""
