"""A state folder as one archive: what goes into it, how it is written while processes run, and how it is read
again.
"""
