"""Which processes of a process folder run on this machine: the main one, and its tree. Blocking."""

from outlive.kernel.processes import command_line, descendants, start_ticks, this_boot
from outlive.kernel.state_files import read_pid
from outlive.protocols.frames import PidRecord

# How the command line of a shim begins (decision 126).
_SHIM = ["outlive-shim", "shim"]


def living_tree(folder: str) -> tuple[PidRecord, list[int]] | None:
    """Return the main process of a folder and the pids of its tree, parents first; None when nothing of it
    can live.

    The shim's children are all of the tree, daemons included. A shim that died has left the command to
    others; then it is what lies below the command.
    """
    record = read_pid(folder)
    if record is None or record.boot_id != this_boot():
        return None
    is_main_there = start_ticks(record.pid) == record.start_ticks
    # A shim lives at least as long as what it holds.
    if record.shim_pid and command_line(record.shim_pid)[:2] == _SHIM:
        below = descendants([record.shim_pid])
        if record.pid in below or not is_main_there:
            return record, below
    return record, [record.pid, *descendants([record.pid])] if is_main_there else []


def living_main(folder: str) -> PidRecord | None:
    """Return the main process of a folder; None when it does not live any more."""
    record = read_pid(folder)
    if record is None or record.boot_id != this_boot() or start_ticks(record.pid) != record.start_ticks:
        return None
    return record
