"""The eleven ways out of a process tree, as shell lines whose processes carry a mark."""

import os
import sys
from dataclasses import dataclass

_PYTHON = os.path.realpath(sys.executable)  # containers know it under its own name
_TO_ROOT_CGROUP = (
    "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do echo $$ > $f; done 2>/dev/null"
)
_SUBREAPER = (
    f"{_PYTHON} -I -S -c 'import ctypes, os, subprocess;"
    " ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.setsid() if os.fork() == 0 else os.wait();"
    ' subprocess.run(["/bin/sh", "-c", "SLEEP & SLEEP & wait"])\''
)
PID_NAMESPACE = "pid namespace"
# An ordinary user may make one in a user namespace only.
UNSHARE = ("unshare", "-fp" if os.geteuid() == 0 else "-Urfp")


@dataclass(frozen=True, slots=True)
class Escape:
    """A shell line (SLEEP carries the mark), how many marked processes there are, whether the main process
    stays.
    """

    line: str
    count: int
    stays: bool = True


CASES: dict[str, Escape] = {
    "background child": Escape("SLEEP & SLEEP", 2),
    "setsid": Escape("setsid SLEEP & wait", 1),
    "daemon whose main exits": Escape("(setsid sh -c 'SLEEP & SLEEP' &) & exit 0", 2, stays=False),
    "job control": Escape("set -m; SLEEP & SLEEP & wait", 2),
    "ignores TERM": Escape("trap '' TERM HUP INT; SLEEP & SLEEP & while :; do SLEEP; done", 3),
    "empty environment": Escape("env -i setsid SLEEP & wait", 1),
    "fork chain": Escape(
        "chain() { if [ $1 -gt 0 ]; then (chain $(($1 - 1))) & fi; SLEEP & wait; }; chain 12; wait", 13
    ),
    PID_NAMESPACE: Escape(f"{' '.join(UNSHARE)} sh -c 'SLEEP & SLEEP' & wait", 2),
    "stopped": Escape("sh -c 'kill -STOP $$; true' & SLEEP & wait", 1),
    "root cgroup": Escape(f"{_TO_ROOT_CGROUP}; SLEEP & SLEEP & wait", 2),
    "own session, cgroup and subreaper": Escape(f"{_TO_ROOT_CGROUP}; setsid {_SUBREAPER} & wait", 2),
}
