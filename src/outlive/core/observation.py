"""What a live process tree looks like from outside at one moment: `Observation`."""

from dataclasses import dataclass
from typing import Literal

# For nothing that could be seen; for input (a read of the input is under way); for a secret (a terminal without echo).
Waiting = Literal["no", "input", "password"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Sums over a command and everything it started that still lives; best effort, what another user owns is not seen.

    `cpu_s` is processor time with that of children that were waited for, `memory_bytes` what lies in memory (pages that
    several processes share count for each). `pids`: parents first. `ports`: TCP ports that the tree listens on, ascending.
    """

    pids: tuple[int, ...] = ()
    threads: int = 0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    ports: tuple[int, ...] = ()
    waiting: Waiting = "no"


NOTHING = Observation()
