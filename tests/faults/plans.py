"""What the commands of a storm shall do, and what must be found afterwards; all of it follows from a seed."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outlive.core.command import Profile
from outlive.core.location import Isolation
from tests.faults import writer
from tests.faults.walls import PYTHON

_WRITER = str(Path(writer.__file__))
# Every signal whose default action ends a process without a core file, and KILL.
_SIGNALS = (1, 2, 9, 10, 12, 13, 14, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One command: what it writes, how, and how it ends (an exit code, or minus a signal).

    Where `begun` names a file, each start of it writes a line there.
    """

    seed: str
    kind: str
    stdio: str
    out: int
    err: int
    is_text: bool
    piece: int
    pause_s: float
    end: int
    profile: Profile = Profile.OPEN
    isolation: Isolation | None = None
    begun: str = ""

    @property
    def walls(self) -> str:
        """In what it runs: a profile, or a container."""
        return self.profile.value if self.isolation is None else f"{self.isolation} container"

    @property
    def argv(self) -> tuple[str, ...]:
        """The words that run it."""
        document = {
            "seed": self.seed,
            "out": self.out,
            "err": self.err,
            "text": self.is_text,
            "piece": self.piece,
            "pause_s": self.pause_s,
            "end": self.end,
            "begun": self.begun,
        }
        return (PYTHON, "-I", "-S", _WRITER, json.dumps(document))

    def digest(self, stream: str) -> tuple[int, str]:
        """Return size and SHA-256 of what the log of "out" or "err" must hold."""
        hashed = hashlib.sha256()
        size = 0
        wanted = self.out if stream == "out" else self.err
        for chunk in writer.content(f"{self.seed}/{stream}", size=wanted, is_text=self.is_text):
            # A terminal turns every line end into carriage return and line feed (termios(3) ONLCR).
            shown = chunk.replace(b"\n", b"\r\n") if self.stdio == "pty" else chunk
            hashed.update(shown)
            size += len(shown)
        return size, hashed.hexdigest()


class Planner:
    """Deals plans: full speed, paced, both streams, a terminal; exit codes 0 to 255 in turn, signals between.

    Half of the commands run in a profile where there are any; a source of numbers of its own decides, so that
    what a seed lets a command write does not depend on the machine. With `has_containers` the other half runs
    in containers, a few in one of their own. `share` of the output that is written at full speed is for
    storms of many commands; `begun` as in `Plan`.
    """

    def __init__(
        self,
        seed: int,
        *,
        profiles: Sequence[Profile] = (),
        has_containers: bool = False,
        share: float = 1.0,
        begun: str = "",
    ) -> None:
        self._share = share
        self._begun = begun
        self._has_containers = has_containers
        self._random = random.Random(f"plans/{seed}")
        self._walls = random.Random(f"walls/{seed}")
        self._profiles = tuple(profiles)
        self._seed = seed
        self._count = 0

    def deal(self) -> Plan:
        """Return the next plan."""
        number = self._count
        self._count += 1
        chosen = self._random
        kind = ("full", "paced", "both", "full", "pty", "brief")[number % 6]
        end = -chosen.choice(_SIGNALS) if number % 4 == 3 else (number * 7) % 256
        sizes = {
            "full": (chosen.randint(1 << 20, 8 << 20), 0, 65536, 0.0),
            "paced": (
                chosen.randint(2_000, 30_000),
                chosen.randint(0, 2_000),
                100,
                chosen.uniform(0.002, 0.02),
            ),
            "both": (chosen.randint(1 << 19, 3 << 20), chosen.randint(1 << 17, 1 << 20), 9_000, 0.0),
            "pty": (chosen.randint(50_000, 600_000), 0, 300, chosen.choice([0.0, 0.001])),
            "brief": (chosen.randint(0, 200), chosen.choice([0, 0, 40]), 50, 0.0),
        }
        out, err, piece, pause_s = sizes[kind]
        if kind not in {"paced", "brief"}:
            out, err = round(out * self._share), round(err * self._share)
        isolation = self._isolation()
        return Plan(
            seed=f"{self._seed}/{number}",
            kind=kind,
            stdio="pty" if kind == "pty" else "pipes",
            out=out,
            err=err,
            is_text=kind in {"pty", "paced"},
            piece=piece,
            pause_s=pause_s,
            end=end,
            profile=self._profile() if isolation is None else Profile.OPEN,
            isolation=isolation,
            begun=self._begun,
        )

    def _isolation(self) -> Isolation | None:
        if not self._has_containers or self._walls.random() < 0.5:
            return None
        return "strict" if self._walls.random() < 0.08 else "session"

    def _profile(self) -> Profile:
        if self._walls.random() < 0.5 or not self._profiles:
            return Profile.OPEN
        return self._walls.choice(self._profiles)
