"""What the marks in the state folder say about its server: whether one is wanted, was stopped in order, or
belongs to a unit.

Read by the guardian, which starts a wanted server again; written by the server (`extensions.services`,
`discovery.ownership`).
"""

import os

from outlive.core.documents import decode_json
from outlive.core.layout import Layout
from outlive.kernel.files import read_small
from outlive.kernel.processes import this_boot
from outlive.protocols.frames import decoded


def is_server_wanted(layout: Layout) -> bool:
    """Return whether a server that is gone has to be started again from here.

    Not after an ordered stop, which counts until the next boot, and not where a service manager does it
    (decision 141).
    """
    # A machine that has joined others is a node: no client of its own may ever come to start its server
    # again.
    is_needed = os.path.exists(layout.server_wanted) or os.path.exists(layout.gateways)
    return is_needed and not is_stopped(layout) and unit_file(layout) is None


def is_stopped(layout: Layout) -> bool:
    """Return whether the last server was stopped on purpose since this machine was booted."""
    return read_small(layout.server_stopped) == this_boot().encode()


def unit_file(layout: Layout) -> str | None:
    """Return the path of the unit's file that owns the folder's server; None when none does, or the file is
    gone.
    """
    path = decoded(read_small(layout.service), lambda raw: str(decode_json(raw)["unit_file"]))
    return path if path is not None and os.path.exists(path) else None
