"""How a command is started: a prepared folder, an idle shim, one message with the descriptors.

Standard library only.
"""
