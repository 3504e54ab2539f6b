"""How many connections there may be, how often a principal may ask, and which request is next."""

__all__: list[str] = []
