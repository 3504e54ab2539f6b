"""What lives: one process, the table of all, what is hidden of it, and how its changes are published and
recorded.
"""
