"""Docker as a place of execution: containers are made, found again and removed here; what runs in them is the keeper's.

The daemon is asked to make, inspect and remove containers and for nothing else: no output passes through it.
"""
