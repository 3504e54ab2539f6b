"""Settings: what text becomes, and who wins when two say something."""
