"""Finding the state folder and its server."""
