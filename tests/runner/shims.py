"""A shim as a process of its own, and the supervisor's part of its protocol, for tests."""

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from outlive.keeper.guardian.guardian import SHIM_LINK
from outlive.kernel import sockets
from outlive.kernel.lock_proof import open_pid_lock, take_pid_lock
from outlive.kernel.locks import take_lock
from outlive.protocols.frames import encode_secrets
from tests.runner.playing import PATIENCE_S, Supervisor, exec_spec, in_memory
from tests.support.processes import descendants, end
from tests.support.run_mark import marked

# How commands are started: by vfork, or in a copy of the shim that takes steps first. This one changes
# nothing (RLIMIT_RTPRIO).
KINDS = ("plain", "bounded")
_STEPS = {"plain": None, "bounded": ("limit 14 0",)}


class Shim:
    """One shim, told by the test what a supervisor would tell it."""

    def __init__(
        self, kind: str, binary: Path, folder: Path, *, env: Mapping[str, str] | None = None
    ) -> None:
        """Start it and hear its hello; `folder` becomes the process's.

        Commands have the steps of their `kind`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._steps = _STEPS[kind]
        self._locks: list[int] = []
        self.take_locks()
        self.held: dict[str, int] = {}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [str(binary), "shim", str(folder)]

        def take_link() -> None:
            os.dup2(theirs.fileno(), SHIM_LINK)

        self._said = folder / "stderr"
        with self._said.open("ab") as stderr:
            self.process = subprocess.Popen(  # the link has to have its number
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={"ASAN_OPTIONS": "detect_leaks=0", **marked(), **(env or {})},
                close_fds=False,
                preexec_fn=take_link,  # noqa: PLW1509 - no threads here
                umask=0o077,
            )
        theirs.close()
        self.listener = sockets.listen_unix(str(folder / "sock"), backlog=4)
        self.supervisor = Supervisor(ours)
        assert self.supervisor.words() == ["hello", str(self.process.pid)], self.said()

    def said(self) -> str:
        """Return what it wrote to stderr."""
        return self._said.read_text(errors="replace")

    def spawn(
        self,
        *argv: str,
        spec: bytes | None = None,
        cwd: str = "/",
        program: str | None = None,
        env: Mapping[str, str] | None = None,
        stdio: str = "pipes",
        secrets: Mapping[str, str] | None = None,
        steps: tuple[str, ...] | None = None,
    ) -> None:
        """Write a spec and give it with all descriptors; the keeper's ends are in `held` then."""
        steps = self._steps if steps is None else steps
        raw = exec_spec(argv, program=program, cwd=cwd, env=env, steps=steps) if spec is None else spec
        (self.folder / "spec").write_bytes(raw)
        ends: dict[str, int] = {}
        if stdio == "pty":
            self.held["r"], self.held["w"] = os.pipe2(os.O_CLOEXEC)
            self.held["m"], ends["T"] = os.openpty()
        else:
            ends["I"], self.held["i"] = os.pipe2(os.O_CLOEXEC)
            for letter in "oe" if stdio == "pipes" else "o":
                self.held[letter], ends[letter.upper()] = os.pipe2(os.O_CLOEXEC)
        if secrets is not None:
            ends["S"] = in_memory(encode_secrets(secrets))
        letters = "L" + "".join(self.held) + "".join(ends)
        fds = [self.listener.fileno(), *self.held.values(), *ends.values()]
        self.supervisor.send(f"spawn {letters} {self.folder}", *fds)
        for fd in ends.values():
            os.close(fd)

    def spawned(self) -> tuple[int, int, int]:
        """Hear `spawned`: pid, ticks, Unix nanoseconds."""
        verb, *numbers = self.supervisor.words()
        assert verb == "spawned", (verb, numbers, self.said())
        pid, ticks, started_ns = map(int, numbers)
        return pid, ticks, started_ns

    def ended(self) -> list[str]:
        """Hear `exited`: kind, number, empty (time left out)."""
        words = self.supervisor.words()
        assert words[0] == "exited", words
        return words[1:4]

    def read(self, letter: str = "o") -> bytes:
        """Return everything that an output brings until it is closed; a terminal's EIO is its end."""
        content = b""
        try:
            while chunk := os.read(self.held[letter], 65536):
                content += chunk
        except OSError:
            pass
        return content

    def take_over(self) -> list[str]:
        """Come as the next supervisor.

        Returns the words behind `state`, its descriptors are in `held` then.
        """
        old, self.supervisor = self.supervisor, Supervisor(sockets.connect_unix(str(self.folder / "sock")))
        message, fds = self.supervisor.packet()
        old.close()  # only now: a shim is never without one that it knows
        words = message.decode().split()
        assert words[0] == "state", words
        self.drop_held()
        self.held = dict(zip("" if words[2] == "-" else words[2], fds, strict=True))
        return words[1:]

    def take_locks(self) -> None:
        """Be the supervisor: hold the locks that lie there."""
        lock = take_lock(str(self.folder / "supervisor.lock"))
        assert lock is not None
        pid_lock = open_pid_lock(str(self.folder / "supervisor.pid"))
        assert take_pid_lock(pid_lock)
        self._locks = [lock, pid_lock]

    def give_up_locks(self) -> None:
        """Be the supervisor no more; others may take the locks."""
        for lock in self._locks:
            os.close(lock)
        self._locks = []

    def drop_held(self) -> None:
        """Close our copies of what it holds."""
        for fd in self.held.values():
            os.close(fd)
        self.held = {}

    def release(self, words: str = "release") -> None:
        """Have it let go of the command, for another one in the same folder."""
        self.supervisor.send(words)
        self.drop_held()

    def wait(self) -> int:
        """Return its exit code, when it has ended."""
        return self.process.wait(PATIENCE_S)

    def discard(self) -> None:
        """End it and what it has started, and close everything."""
        self.supervisor.close()
        self.listener.close()
        self.drop_held()
        self.give_up_locks()
        if self.process.poll() is None:
            below = descendants(self.process.pid)
            self.process.kill()
            self.process.wait()
            for pid in below:
                end(pid)
