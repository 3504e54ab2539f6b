"""How the lean tools read a log: in turns, as lines without noise, and by a pattern.

`pages` beside this makes answers of it.
"""
