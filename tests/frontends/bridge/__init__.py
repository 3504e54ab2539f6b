"""The inside of the bridge that no extension can steer exactly: whose terminals are given back, and what is
kept on disk.
"""
