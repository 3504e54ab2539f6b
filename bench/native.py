"""The measuring programs in C: compiled once a run into a temporary folder, then called by name."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Unavailable

_SOURCES = Path(__file__).parent / "csrc"
_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")


@dataclass(frozen=True, slots=True)
class Native:
    """The folder with the compiled programs: sink, streams, starts, calls, spawn, splice, emit, keep."""

    folder: Path

    def path(self, program: str) -> str:
        """Where one program lies."""
        return str(self.folder / program)

    def emit(self, *words: object) -> str:
        """The shell command that runs `emit` with these words."""
        return " ".join([self.path("emit"), *map(str, words)])

    def run(self, program: str, *words: object, timeout_s: float = 180) -> Mapping[str, int]:
        """Run a program to its end and return the one JSON line it prints.

        Raises:
            RuntimeError: It refused or failed; the message is what it said.
        """
        command = [self.path(program), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        measured: dict[str, int] = json.loads(done.stdout)
        return measured


def compile_programs(folder: Path) -> Native:
    """Compile every program of `csrc` into `folder`.

    Raises:
        Unavailable: There is no gcc, or it failed.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Unavailable("no C compiler (gcc) on this machine")
    running = [
        subprocess.Popen(
            [compiler, *_FLAGS, "-o", str(folder / source.stem), str(source)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for source in sorted(_SOURCES.glob("*.c"))
    ]
    complaints = [one.communicate()[1] for one in running]
    if any(one.returncode for one in running):
        raise Unavailable("the measuring programs do not compile: " + "".join(complaints).strip())
    return Native(folder)
