"""Runs commands that outlive their caller.

Owns the numbers of this version and nothing else: importing the package must stay free, because the keeper's
processes pay for every module in memory.
"""

__all__ = ["FORMAT", "PROTOCOL", "__version__"]

__version__ = "0.1.0"

# Of everything in a state folder, and of what keeper, shims and server say to each other. A change after
# which an earlier or a later version could not go on in the folder counts it up: no version uses a folder of
# another number (`kernel.folder_identity`).
FORMAT = 1
# Of docs/jsonrpc.md as our own client speaks it, also a server to its nodes: they work with a server of this
# number only (`client.messages`). A member that is added does not count it up.
PROTOCOL = 1
