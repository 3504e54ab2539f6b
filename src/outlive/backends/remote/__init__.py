"""Another outlive server as a place of execution: its processes are mirrored into folders of our own (decision 125)."""

from outlive.backends.remote.backend import RemoteBackend
from outlive.backends.remote.folder import known_nodes

__all__ = ["RemoteBackend", "known_nodes"]
