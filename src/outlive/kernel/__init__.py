"""What the kernel is asked, for every room above: files that are read as they are found, and written whole.

Standard library only. What files mean is known to the rooms that write them.
"""
