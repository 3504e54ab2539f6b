"""Which machine a command runs on, and which command is next when all are full.

Pure: it counts, and asks no machine.
"""
