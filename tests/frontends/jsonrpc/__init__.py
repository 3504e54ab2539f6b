"""The inside of the JSON-RPC door that no client can steer exactly: turns, back-pressure, gaps, broken
readers.
"""
