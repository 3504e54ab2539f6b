"""What every scenario is given: the compiled programs, a scratch folder, and how thorough to be."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bench import proc
from bench.agents.options import AgentOptions
from bench.native import Native

T = TypeVar("T")

_QUIET_S = 0.1
_QUIET_SHARE = 0.9
_MOST_SETTLING_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One run of the benchmarks; `say` shows a line of progress, `search_mb` is how much is searched, if it
    was chosen.
    """

    native: Native
    scratch: Path
    is_quick: bool
    say: Callable[[str], None]
    agents: AgentOptions = field(default_factory=AgentOptions)
    search_mb: int | None = None

    def settle(self) -> None:
        """Wait until the machine is quiet: what somebody still does after its turn must not slow whoever is
        next.

        Quiet is nine tenths idle for a tenth of a second; it is not waited for longer than two seconds.
        """
        deadline = time.monotonic() + _MOST_SETTLING_S
        while proc.idle_share(_QUIET_S) < _QUIET_SHARE and time.monotonic() < deadline:
            pass

    def warm_memory(self, size: int) -> None:
        """Write `size` bytes into the page cache and drop them, so that what is measured next finds memory at
        hand.

        In a virtual machine the first touch of a page can cost 3 us (the host gives it only then, and takes
        it back soon after it was freed): ten times what writing into a page costs.
        """
        block = bytes(1 << 18)
        for _ in range(2):
            with tempfile.TemporaryFile(dir=self.scratch, buffering=0) as file:
                for _ in range(-(-size // len(block))):
                    file.write(block)

    def pick(self, full: T, quick: T) -> T:
        """The value for a full run, or the one for a quick run."""
        return quick if self.is_quick else full

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A fresh folder below the scratch folder, removed with everything in it."""
        # Names stay short: a Unix socket in here has 108 bytes for its whole path.
        with tempfile.TemporaryDirectory(dir=self.scratch, prefix="", ignore_cleanup_errors=True) as name:
            yield Path(name)


def clean_environment(**added: str) -> dict[str, str]:
    """This environment without anyone's settings of outlive, plus what is `added`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLIVE_")}
    return {**kept, **added}


def peer_environment() -> dict[str, str]:
    """An environment in which a child Python finds `bench.peers`, wherever it is started."""
    return clean_environment(PYTHONPATH=str(Path(__file__).resolve().parent.parent))
