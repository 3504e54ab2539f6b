"""A keeper of a test's own on a temporary state folder: started with chosen settings, ended, and nobody left.

Pids come from the keeper's own status; who lives is asked of /proc.
"""

import functools
import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Self, TypedDict, Unpack
from unittest import mock

from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.spec import Spec
from outlive.discovery.keeper import find_program
from outlive.keeper.common.launch import ensure_keeper
from outlive.kernel.files import is_written
from outlive.kernel.state_files import read_end
from outlive.protocols.frames import ExitRecord, PidRecord, decode_pid
from tests.keeper.client import KeeperClient, KeeperGone, Reply, new_id, until
from tests.support.processes import (
    all_pids,
    end,
    is_alive,
    is_stopped,
    of_state_folder,
    stat,
    wait_state_folder_empty,
)

_SETTINGS = ("OUTLIVE_KEEPER_", "OUTLIVE_FAILPOINT")


def sh(line: str) -> tuple[str, ...]:
    """Return the words that run a shell line."""
    return ("/bin/sh", "-c", line)


@functools.cache
def shim_program() -> str:
    """Return the program of shims, compiled if need be."""
    return find_program(Layout("/nonexistent"))


def is_paused(pid: int) -> bool:
    """Tell whether a process makes no progress: stopped, or waiting in vfork(2) for a child that is stopped.

    One that was in the kernel when it was told to stop, and has only its way out to go, is waited for.
    """
    deadline = time.monotonic() + 1.0
    while (found := stat(pid)) is not None and found.state in "DR" and _is_told_to_stop(pid):
        if found.state == "D":
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return is_stopped(pid)


def _is_told_to_stop(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False  # gone meanwhile
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) & 1 << (signal.SIGSTOP - 1))


class Options(TypedDict, total=False):
    """What may be said about a command beside its words: the fields of `Spec`, and its id."""

    process_id: ProcessId
    env: Mapping[str, str]
    cwd: str
    stdio: str
    stdin: str
    rows: int
    cols: int
    timeout_s: float
    grace_s: float
    output_limit: int
    on_limit: str
    after_exit: str
    confinement: tuple[str, ...] | None


class House:
    """One state folder, its keeper, and one client (`client`).

    A context manager that leaves nothing behind.
    """

    def __init__(self, state_dir: Path, *, env: Mapping[str, str] | None = None) -> None:
        """Describe; nothing runs yet. `env` are settings of the keeper."""
        self.state_dir = state_dir
        self.layout = Layout(str(state_dir))
        self._env = dict(env or {})
        self.client = KeeperClient(state_dir, ensure=self.ensure)

    def _environment(self) -> AbstractContextManager[object]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        return mock.patch.dict(os.environ, clean | self._env, clear=True)

    def ensure(self) -> None:
        """Start the keeper if nobody serves the state folder."""
        with self._environment():
            ensure_keeper(str(self.state_dir), deadline_s=20.0, find_program=shim_program)

    def __enter__(self) -> Self:
        """Start the keeper and connect."""
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.client.connect()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the keeper with everything it runs; nothing may be left, and its log may hold no traceback."""
        try:
            self.end()
        finally:
            left = wait_state_folder_empty(self.state_dir)
            for pid in left:
                end(pid)
            self.client.close()
        if kind is None:
            assert not left, f"processes left: {left}\n{self.log()}"
            assert "Traceback" not in self.log(), self.log()

    def end(self) -> None:
        """Ask the keeper to end, with all processes; one that dies meanwhile is asked again."""
        if not of_state_folder(self.state_dir) and not self.is_served():
            return
        with suppress(KeeperGone):
            if self.client.ask_surely("end", kill=True)["ok"]:
                self.client.close()

    def is_served(self) -> bool:
        """Tell whether a supervisor runs."""
        return self.supervisor_of_lock() is not None

    def supervisor_of_lock(self) -> int | None:
        """Return the pid in the supervisor's lock file if it lives."""
        with suppress(OSError, ValueError):
            pid = int(Path(self.layout.supervisor_lock).read_text().split()[0])
            return pid if is_alive(pid) else None
        return None

    def log(self) -> str:
        """Return what the keeper has logged."""
        try:
            return Path(self.layout.keeper_log).read_text(errors="replace")
        except OSError:
            return ""

    # -- who is there

    def status(self) -> Reply:
        """Ask the keeper who it is."""
        return self.client.ask_surely("status")

    def supervisor(self) -> int:
        """Return the supervisor's pid."""
        return _pid_of(self.status(), "supervisor")

    def guardian(self) -> int:
        """Return the guardian's pid (waits until there is one)."""
        return until(lambda: _pid_of(self.status(), "guardian"), "a guardian")

    def guardians(self) -> list[int]:
        """Return the pids of everything with a guardian's command line: the guardian, one being started, its
        forks.
        """
        return self._of_role("guardian")

    def _of_role(self, role: str) -> list[int]:
        mark = b"\0%s\0%s\0" % (role.encode(), os.fsencode(self.state_dir))
        found = []
        for pid in all_pids():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/cmdline").read_bytes() and is_alive(pid):
                    found.append(pid)
        return found

    def shims(self) -> list[int]:
        """Return the pids of all shims: programs of their own, or forked from a guardian with its command
        line.
        """
        guardian = _pid_of(self.status(), "guardian")
        found = {pid for pid in self.guardians() + self._of_role("shim") if pid != guardian}
        # What a shim starts has that command line, too, until it executes; the init of a sealed command keeps
        # it, and the kernel ends the command with it.
        return [
            pid
            for pid in found
            if (seen := stat(pid)) is not None and seen.ppid not in found and not _is_init(pid)
        ]

    def shim_of(self, process_id: str) -> int:
        """Return the pid of the shim that spawned a process."""
        record = until(lambda: self.pid_record(process_id), "the pid file")
        return record.shim_pid

    def kill(self, *pids: int) -> None:
        """Kill processes of the keeper and wait until they are dead."""
        for pid in pids:
            end(pid)
        for pid in pids:
            until(lambda pid=pid: not is_alive(pid), f"the end of {pid}")  # type: ignore[misc] # a bound pid

    def kill_shim_of(self, process_id: str) -> None:
        """Kill a command's own shim and wait until the supervisor has looked for a holder (or all is
        over).
        """
        socket_path = self.folder(process_id) / "sock"
        before = _birth(socket_path)
        self.kill(self.shim_of(process_id))
        done = f"{self.folder(process_id)}/done"
        until(lambda: _birth(socket_path) != before or is_written(done), "the shim's death to be noticed")

    def wait_redundant(self) -> Reply:
        """Wait until every descriptor is held twice (asked twice: news of a death may be on its way)."""

        def twice() -> Reply | None:
            return status if self.status()["redundant"] and (status := self.status())["redundant"] else None

        return until(twice, "redundancy")

    # -- commands

    def spec(self, *argv: str, **options: Unpack[Options]) -> tuple[ProcessId, Spec]:
        """Return an id (fresh, unless given) and the spec of a command with it."""
        process_id = options.pop("process_id", None) or new_id()
        env = {
            "PATH": os.environ["PATH"],
            "OUTLIVE_PROCESS_ID": process_id,
            "OUTLIVE_STATE_DIR": str(self.state_dir),
            **options.pop("env", {}),
        }
        cwd = options.pop("cwd", "/")
        return process_id, Spec(program=argv[0], argv=argv, env=env, cwd=cwd, **options)  # type: ignore[misc] # pop

    def start(self, *argv: str, **options: Unpack[Options]) -> ProcessId:
        """Start a command and return its id."""
        process_id, spec = self.spec(*argv, **options)
        self.client.start(spec, process_id=process_id)
        return process_id

    def run(self, *argv: str, **options: Unpack[Options]) -> tuple[int, bytes, bytes]:
        """Run a command to its completion; returns exit code (minus a signal), stdout and stderr."""
        process_id = self.start(*argv, **options)
        self.client.wait_done(process_id)
        return self.wire_code(process_id), self.out(process_id), self.err(process_id)

    # -- files

    def folder(self, process_id: str) -> Path:
        """Return the process's folder."""
        return Path(self.layout.process(process_id))

    def out(self, process_id: str) -> bytes:
        """Return the stdout log."""
        return (self.folder(process_id) / "out").read_bytes()

    def err(self, process_id: str) -> bytes:
        """Return the stderr log; it is made with the first bytes."""
        log = self.folder(process_id) / "err"
        return log.read_bytes() if log.exists() else b""

    def wait_output(self, process_id: str, size: int) -> bytes:
        """Wait until stdout holds at least `size` bytes; returns them."""
        return until(lambda: found if len(found := self.out(process_id)) >= size else None, "output")

    def done(self, process_id: str) -> dict[str, object]:
        """Return the completion mark."""
        document: dict[str, object] = json.loads((self.folder(process_id) / "done").read_text())
        return document

    def exit_record(self, process_id: str) -> ExitRecord:
        """Return the exit record."""
        record = read_end(str(self.folder(process_id)))
        assert record is not None, "no end is recorded"
        return record

    def pid_record(self, process_id: str) -> PidRecord | None:
        """Return the pid record, None while there is none."""
        try:
            return decode_pid((self.folder(process_id) / "pid").read_bytes())
        except OSError:
            return None

    def pid(self, process_id: str) -> int:
        """Return the command's pid."""
        return until(lambda: self.pid_record(process_id), "the pid file").pid

    def wire_code(self, process_id: str) -> int:
        """Return the recorded exit code as the wire shows it: minus the number for a signal."""
        record = self.exit_record(process_id)
        assert record.kind in {"exited", "signaled"}, record
        return -record.number if record.kind == "signaled" else record.number


def _birth(path: Path) -> int:
    try:
        return path.stat().st_ctime_ns  # inode numbers are used again at once
    except FileNotFoundError:
        return 0


def _is_init(pid: int) -> bool:
    """Tell whether a process is the first of a PID namespace of its own (proc_pid_status(5), NSpid)."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return len(line.split()) > 2
    return False


def _pid_of(status: Reply, role: str) -> int:
    part = status[role]
    assert isinstance(part, dict)
    return int(part["pid"] or 0)
