"""One verdict at every door: the same request is taken, or refused for the same reason, wherever it comes
in.
"""
