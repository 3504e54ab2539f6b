"""Nouns and rules of the product: pure values and decisions, no I/O, standard library only."""
