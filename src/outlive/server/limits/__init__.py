"""How many connections there may be, how often a principal may ask, and which request is next."""
