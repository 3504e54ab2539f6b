"""All that is asked of Linux, for every room above: processes, sockets, locks, files written whole.

Standard library only. What files mean is known to the rooms that write them, but for what the keeper and the
server both must read.
"""
