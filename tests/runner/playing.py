"""A runner process, and the supervisor's part of its protocol, for tests."""

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from outlive.keeper.supervisor.endings import tree_control
from outlive.kernel import sockets
from outlive.kernel.locks import take_lock
from outlive.kernel.processes import stat_fields
from outlive.protocols.frames import encode_exec, encode_secrets

PATIENCE_S = 60.0


def wait_until(holds: object, *, about: str = "") -> None:
    """Call `holds` until it is true; fails after a while."""
    assert callable(holds)
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, about or "it never happened"
        time.sleep(0.002)


def in_memory(content: bytes) -> int:
    """Return a file that has no name."""
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)
    return fd


def exec_spec(
    argv: tuple[str, ...],
    *,
    program: str | None = None,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
    removed: tuple[str, ...] = (),
    steps: tuple[str, ...] | None = None,
    head: bytes = b"{}\n",
    umask: int | None = None,
    nice: int | None = None,
) -> bytes:
    """Return a spec file as the keeper writes it; `removed` names leave the environment."""
    block = encode_exec(
        argv[0] if program is None else program, cwd, argv, env or {}, steps=steps, umask=umask, nice=nice
    )
    words, _, begins = block.rpartition(b"\0")
    block = b"\0".join([words, *(name.encode() for name in removed), begins])
    return b"outlive-spec-1 %d\n%s%s" % (len(head), head, block)


class Runner:
    """One runner process; in a PID namespace of its own where `words` begin with unshare."""

    lock: int | None = None  # what holds the supervisor's lock, where the runner asks for it

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        before: tuple[str, ...] = (),
        asks: bool = False,
    ) -> None:
        """Start it on a socket in `folder`; with `asks` it wants proof of each supervisor."""
        self.socket = folder / "runner.sock"
        self.commands: list[Command] = []
        words = [*before, str(binary), "serve", "--any-peer"]
        if asks:
            self.lock = take_lock(lock := str(folder / "supervisor.lock"))
            words.append(lock)
        # A sanitizer's last check asks ptrace(2) about itself, which the runner forbids to everybody.
        env = {**os.environ, "BASE": "container", "ASAN_OPTIONS": "detect_leaks=0"}
        self._stderr = folder / "stderr"
        with self._stderr.open("wb") as stderr, sockets.listen_unix(str(self.socket)) as listener:
            self.process = subprocess.Popen(words, stdin=listener.fileno(), stderr=stderr, env=env)

    def said(self) -> str:
        """Return what it and its minders wrote to stderr."""
        return self._stderr.read_text(errors="replace")

    def connect(self) -> socket.socket:
        """Return a link to a new minder."""
        link = sockets.connect_unix(str(self.socket))
        link.settimeout(PATIENCE_S)
        return link

    def end(self) -> int:
        """Tell it to end; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def discard(self) -> None:
        """End it whatever it does, and close what tests held of its commands."""
        for command in self.commands:
            command.release()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Supervisor:
    """The supervisor's end of one link."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        link.settimeout(PATIENCE_S)

    def send(self, words: str | bytes, *fds: int) -> None:
        """Send one packet."""
        raw = words if isinstance(words, bytes) else words.encode()
        sockets.send(self.link, raw, fds)

    def packet(self) -> tuple[bytes, list[int]]:
        """Return the next packet and its descriptors; b"" is the end."""
        packet = sockets.receive(self.link)
        assert packet is not None
        return packet

    def words(self) -> list[str]:
        """Return the next packet's words; it must bring no descriptors."""
        message, fds = self.packet()
        assert fds == []
        return message.decode().split()

    def prove(self, lock: int | None) -> None:
        """Answer the question that comes first; None: none will come."""
        if lock is None:
            return
        verb, offset = self.words()
        assert verb == "prove"
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_UNLCK, int(offset)))
        self.send("proved")
        select.select([self.link], [], [], PATIENCE_S)
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_WRLCK, int(offset)))

    def is_silent(self) -> bool:
        """Tell whether nothing waits, neither words nor the end."""
        return not select.select([self.link], [], [], 0.05)[0]

    def close(self) -> None:
        """Hang up."""
        self.link.close()


class Command:
    """One command in a runner: what the supervisor holds of it, and each step of its start."""

    def __init__(self, runner: Runner, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.pid_file = folder / "pid"
        self.held: dict[str, int] = {}
        self.pid = 0
        self.minder_outside = 0  # its pid in our own PID namespace
        self.listener = sockets.listen_unix(str(folder / "sock"))
        self.runner = runner
        self.supervisor = Supervisor(runner.connect())
        runner.commands.append(self)
        self.supervisor.prove(runner.lock)
        hello = self.supervisor.words()
        assert hello[0] == "hello"
        self.minder = int(hello[1])

    def spawn(
        self,
        spec: bytes,
        *,
        pty: tuple[int, int] | None = None,
        merged: bool = False,
        more: Mapping[str, int] | None = None,
        secrets: Mapping[str, str] | None = None,
        script: bytes | None = None,
        stdin: bool = True,
    ) -> None:
        """Send `spawn`; what the keeper keeps of the streams is in `held` then."""
        record = os.open(self.pid_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        passed = {"L": self.listener.fileno(), "P": record, "X": in_memory(spec), **(more or {})}
        ours = [record, passed["X"], *(more or {}).values()]
        if stdin:
            theirs, self.held["i"] = os.pipe2(os.O_CLOEXEC)
            passed |= {"I": theirs, "i": self.held["i"]}
            ours.append(theirs)
        if pty is not None:
            self.held["r"], self.held["w"] = os.pipe2(os.O_CLOEXEC)
            passed |= {"r": self.held["r"], "w": self.held["w"]}
            self.supervisor.send(f"terminal {pty[0]} {pty[1]}")
        for letter in "" if pty else "o" if merged else "oe":
            self.held[letter], theirs = os.pipe2(os.O_CLOEXEC)
            passed |= {letter: self.held[letter], letter.upper(): theirs}
            ours.append(theirs)
        if secrets is not None:
            passed["S"] = in_memory(encode_secrets(secrets))
            ours.append(passed["S"])
        if script is not None:
            passed["F"] = in_memory(script)
            ours.append(passed["F"])
        try:
            self.supervisor.send(f"spawn {''.join(passed)} {self.folder}", *passed.values())
        finally:
            for fd in ours:
                os.close(fd)

    def born(self) -> list[str]:
        """Hear `born`; returns its letters, whose descriptors are in `held` then."""
        message, fds = self.supervisor.packet()
        words = message.decode().split()
        assert words[0] == "born", words
        letters = "" if words[1] == "-" else words[1]
        assert len(letters) == len(fds)
        self.held |= dict(zip(letters, fds, strict=True))
        if "p" in self.held:
            self.pid = pid_of(self.held["p"])
            assert self.pid > 0, "kill(2) means many by 0 and -1"
            self.minder_outside = int(stat_fields(self.pid)[1])
        return list(letters)

    def line(self) -> str:
        """Return the record that only the supervisor can make."""
        return f"{self.pid} 12345 1700000000000000000 99 7 boot-id"

    def go(self) -> None:
        """Let the command execute."""
        self.supervisor.send(f"go {self.line()}")

    def start(self, argv: tuple[str, ...], **how: object) -> "Command":
        """Take all steps until `spawned`; `how` goes to `exec_spec` and `spawn`."""
        for_spec = {
            name: how.pop(name)
            for name in ("program", "cwd", "env", "removed", "steps", "head", "umask", "nice")
            if name in how
        }
        self.spawn(exec_spec(argv, **for_spec), **how)  # type: ignore[arg-type]
        self.born()
        self.go()
        assert self.supervisor.words() == ["spawned", str(self.pid), "12345", "1700000000000000000"]
        return self

    def record(self) -> list[str]:
        """Return the lines of the pid file."""
        return self.pid_file.read_text().splitlines()

    def take_over(self, *, close: bool = True) -> list[str]:
        """Come back as a new supervisor; returns the words of `state`, its descriptors are in `held` then."""
        if close:
            self.supervisor.close()
        for fd in self.held.values():
            os.close(fd)
        self.supervisor = Supervisor(self.connect())
        self.supervisor.prove(self.runner.lock)
        message, fds = self.supervisor.packet()
        words = message.decode().split()
        assert words[:2] == ["state", "own"], words
        letters = "" if words[2] == "-" else words[2]
        self.held = dict(zip(letters, fds, strict=True))
        if "p" in self.held and not self.pid:
            self.pid = max(0, pid_of(self.held["p"]))
        return words[2:]

    def connect(self) -> socket.socket:
        """Return a connection to where new supervisors are expected."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return sockets.connect_unix(str(self.folder / "sock"))
            except BlockingIOError:  # a backlog as short as the keeper's; recovery tries again, too
                assert time.monotonic() < until
                time.sleep(0.01)

    def read(self, letter: str = "o") -> bytes:
        """Return everything a stream brings until it is closed; a terminal's EIO counts as its end."""
        content = b""
        os.set_blocking(self.held[letter], True)
        with contextlib.suppress(OSError):
            while chunk := os.read(self.held[letter], 65536):
                content += chunk
        return content

    def read_until(self, mark: bytes, letter: str = "o") -> bytes:
        """Return what a stream brings until `mark` has come."""
        content = b""
        os.set_blocking(self.held[letter], True)
        while mark not in content:
            ready, _, _ = select.select([self.held[letter]], [], [], PATIENCE_S)
            assert ready, content
            chunk = os.read(self.held[letter], 65536)
            assert chunk, content
            content += chunk
        return content

    def ended(self) -> list[str]:
        """Hear `exited`: kind, number, empty (time left out)."""
        words = self.supervisor.words()
        assert words[0] == "exited", words
        return words[1:4]

    def signal_tree(self, *numbers: int) -> None:
        """Signal everything below the minder, as a supervisor does."""
        tree_control.send_all([self.minder_outside], list(numbers))

    def release(self) -> None:
        """Let the minder go, and close everything."""
        with contextlib.suppress(OSError):
            self.supervisor.send("release")
        self.supervisor.close()
        self.listener.close()
        for fd in self.held.values():
            with contextlib.suppress(OSError):
                os.close(fd)
        self.held.clear()


def _one_byte(kind: int, offset: int) -> bytes:
    return struct.pack("hhqqi", kind, os.SEEK_SET, offset, 1, 0)  # struct flock


def pid_of(pidfd: int) -> int:
    """Return the pid behind a pidfd as this process sees it (-1: it has ended)."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))


def window_size(terminal: int) -> tuple[int, int]:
    """Return rows and columns."""
    rows, cols, _, _ = struct.unpack("4H", fcntl.ioctl(terminal, 0x5413, b"\0" * 8))  # TIOCGWINSZ
    return rows, cols
