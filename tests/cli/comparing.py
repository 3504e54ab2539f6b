"""The same command bare and through `outlive run`, and everything that a caller could see of either."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.server import OutliveServer, outlive_command

_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """How a command ended (minus the signal, as subprocess counts) and what it wrote."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_words(server: OutliveServer, *flags: str) -> list[str]:
    """Return the words before a command that run it through `outlive run`."""
    return [*outlive_command(), "run", "--state-dir", str(server.state_dir), "--no-start", *flags, "--"]


class Stage:
    """Runs commands bare or through `outlive run`."""

    def __init__(self, server: OutliveServer, folder: Path) -> None:
        """Run in `folder`."""
        self.server = server
        self.folder = folder

    def words(self, argv: Sequence[str], *, is_bare: bool, flags: Sequence[str] = ()) -> list[str]:
        """Return the command line."""
        return list(argv) if is_bare else [*run_words(self.server, *flags), *argv]

    def seen(
        self,
        argv: Sequence[str],
        *,
        is_bare: bool,
        stdin: bytes | IO[bytes] | int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        is_one_output: bool = False,
    ) -> Seen:
        """Run to the end."""
        done = subprocess.run(
            self.words(argv, is_bare=is_bare),
            stdin=None if isinstance(stdin, bytes) else stdin,
            input=stdin if isinstance(stdin, bytes) else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if is_one_output else subprocess.PIPE,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            timeout=_PATIENCE_S,
            check=False,
        )
        return Seen(done.returncode, done.stdout, done.stderr or b"")

    def both(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        is_one_output: bool = False,
    ) -> Seen:
        """Run it both ways, hold that nothing differs, and return what was seen."""
        bare = self.seen(argv, is_bare=True, stdin=stdin, env=env, is_one_output=is_one_output)
        through = self.seen(argv, is_bare=False, stdin=stdin, env=env, is_one_output=is_one_output)
        assert through == bare
        return bare

    @contextlib.contextmanager
    def running(
        self, argv: Sequence[str], *, is_bare: bool, flags: Sequence[str] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run it, with pipes on all sides, in a process group of its own, until the end of the block."""
        with subprocess.Popen(
            self.words(argv, is_bare=is_bare, flags=flags),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def shell(self, line: str, *, is_bare: bool) -> Seen:
        """Run a shell line in which RUN stands before the command in question (or for nothing)."""
        words = "" if is_bare else " ".join(run_words(self.server))
        return self.seen(["bash", "-c", line.replace("RUN ", words + " " if words else "")], is_bare=True)

    def both_in_shell(self, line: str) -> Seen:
        """Do the same both ways, and hold that nothing differs."""
        bare, through = self.shell(line, is_bare=True), self.shell(line, is_bare=False)
        assert through == bare
        return bare
