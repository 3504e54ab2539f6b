"""A driver of Ray as a process of its own (`python -m`): the only place that imports `ray`.

A driver blocks while Ray's control server is away, and its process exits when that takes a minute; the server
(`ray_placement`) does neither, and starts another one.
"""
