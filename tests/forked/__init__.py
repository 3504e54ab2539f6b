"""The keeper's tests once more, with shims that are forks of the guardian: the same test bodies.

Every day they run with the program where it can be compiled; forks are what there is elsewhere, and for sandboxes.
"""
