"""What keeps a command within its profile: the steps, and the process that takes them.

Standard library only.
"""
