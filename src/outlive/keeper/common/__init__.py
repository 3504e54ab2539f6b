"""What all programs of the keeper use: files, locks, sockets, kernel calls, process trees.

Standard library only.
"""
