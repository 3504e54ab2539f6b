"""`outlive up`, `down`, `restart`, and `logs` of a project's services."""
