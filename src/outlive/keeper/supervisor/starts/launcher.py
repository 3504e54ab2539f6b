"""Starting commands: spec into a prepared folder, rename (the commit point), pipes, one message to an idle
shim.

A start that is repeated with the same id starts nothing twice: an id whose folder exists is known.

Whether a command may start is decided by the server; shims come from `shim_pool`, folders from
`prepared_folders`.
"""

import errno
import os
from collections.abc import Callable

from outlive.core.identity import id_to_bytes
from outlive.core.spec import Spec
from outlive.core.values import dataclass
from outlive.keeper.supervisor.home import Home
from outlive.keeper.supervisor.inputs import PassedStdin
from outlive.keeper.supervisor.managed_process import (
    Answer,
    ManagedProcess,
    ShimLink,
    Stream,
    lost_of,
    open_ends,
)
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.process_table import ManagedProcesses
from outlive.keeper.supervisor.starts.container_links import ContainerLinks
from outlive.keeper.supervisor.starts.prepared_folders import PreparedFolder, PreparedFolders
from outlive.keeper.supervisor.starts.shim_pool import ShimPool
from outlive.kernel import sockets
from outlive.kernel.disk import FULL, look_at_space
from outlive.kernel.failpoints import hit
from outlive.kernel.files import read_all, set_aside, write_prepared
from outlive.kernel.state_files import Journal, read_end, read_pid
from outlive.protocols.frames import WITHDRAWN
from outlive.protocols.keeper import Phase, decode_spec, stored_spec

INTERRUPTED: dict[str, object] = {
    "error": "start_failed",
    "message": "The start was interrupted; whether the command ran is not known.",
}
_LACKS = {
    "disk_full": "The state folder's file system is full: nothing is started before there is space.",
    "read_only": "The state folder's file system is read-only: nothing is started before it can be written.",
    "folder_gone": "The state folder is gone: nothing can be started.",
}
# The places of a failed start that are files of its process folder; none is named where a file could not even
# take that.
_RECORDS = frozenset({"spec", "pid", "record", ""})
_FDS_PER_PROCESS = 8  # three files, at most three ends of pipes, the shim's link, the pidfd
_FDS_RESERVED = 200  # for connections and the supervisor's own files


def most_processes(limit: int, prepared: int) -> int:
    """Return how many processes a supervisor with this limit of descriptors keeps.

    Prepared folders hold some of them.
    """
    return max(0, limit - _FDS_RESERVED - prepared) // _FDS_PER_PROCESS


@dataclass(eq=False, slots=True, kw_only=True)
class Launcher:
    """Starts processes; enters each into the supervisor's table before anything can happen to it.

    `root` is the state folder, `processes` the folder of all processes' folders. At most `max_processes` are
    kept. `failed` handles a start that no shim could be given.
    """

    root: str
    processes: str
    pool: ShimPool
    pump: Pump
    table: ManagedProcesses
    home: Home
    failed: Callable[[ManagedProcess, int, str], None]
    journal: Journal
    passed_stdin: PassedStdin
    containers: ContainerLinks
    prepared: PreparedFolders
    max_processes: int

    def start(
        self, process_id: str, raw_spec: bytes, script: bytes, answer: Answer, *, secrets: bytes | None = None
    ) -> None:
        """Start a command, or answer for the start that had its id before; the answer comes when the shim has
        spawned it.

        `secrets` (`frames.encode_secrets`) stay in memory: a command that lost them does not start.
        """
        if (known := self.table.by_key.get(id_to_bytes(process_id))) is not None:
            _join(known, answer)
            return
        spec = decode_spec(raw_spec, with_command=False)  # the shim reads the command itself
        folder = f"{self.processes}/{process_id}"
        count = len(self.table.by_key) + len(self.table.unrecovered.by_key)
        if count >= self.max_processes and not os.path.exists(folder):
            message = f"{count} processes live here already: more descriptors than that may not be opened."
            answer({"error": "process_limit", "message": message})
            return
        # Before anything is taken: a start that fails halfway would have to be told apart from one that ran.
        lack = look_at_space(self.root)[0] if self.home.is_here() else "folder_gone"
        if lack is not None and not os.path.exists(folder):
            answer({"error": lack, "message": _LACKS[lack]})
            return
        try:
            prepared = self.prepared.take()
        except OSError as error:
            answer(_refusal(error))
            return
        lent = self.passed_stdin.take(process_id)
        if spec.stdin == "lent" and not lent:
            self.prepared.give_back(prepared)
            # A repeated start needs no standard input any more.
            answer(known_start(folder) if os.path.exists(folder) else failed_start(0, "stdin"))
            return
        try:
            write_prepared(f"{prepared.path}/spec", raw_spec)
            if script:
                write_prepared(f"{prepared.path}/script", script, mode=0o700)
            # The journal first: a committed start that it does not name would not be taken over.
            self.journal.begin(process_id)
            hit("start.journaled")
            try:
                os.rename(prepared.path, folder)
            except FileNotFoundError:  # `processes` was removed by hand
                os.makedirs(self.processes, mode=0o700, exist_ok=True)
                os.rename(prepared.path, folder)
        except OSError as error:
            self.prepared.give_back(prepared)
            for fd in lent:
                os.close(fd)
            is_known = error.errno in {errno.ENOTEMPTY, errno.EEXIST}
            # The folder is an earlier start's, and the table holds nothing of it any more.
            if is_known:
                self.journal.end(process_id)
            answer(known_start(folder) if is_known else _refusal(error))
            return
        hit("start.committed")
        process = ManagedProcess(process_id, folder, spec)
        process.answers.append(answer)
        process.lent = lent
        process.secrets = secrets
        self._open(process, prepared)

    def again(self, process: ManagedProcess) -> None:
        """Start a committed process that never executed: the supervisor died before any shim had got it."""
        # The folder exists already, so the files are opened and not made.
        prepared = object.__new__(PreparedFolder)
        prepared.path = process.folder
        prepared.listener = sockets.listen_unix(f"{process.folder}/sock", backlog=4)
        prepared.out, err, prepared.idx = open_logs(process.folder)
        if err >= 0:
            os.close(err)
        self._open(process, prepared)

    def _open(self, process: ManagedProcess, prepared: PreparedFolder) -> None:
        process.listener = prepared.listener
        process.idx = prepared.idx
        self.table.by_key[process.key] = process
        process.streams = [Stream(process, 0, source=-1, log=prepared.out)]
        if process.spec.stdio == "pipes":
            process.streams.append(Stream(process, 1, source=-1, log=-1))
        if process.spec.container:
            self.containers.start(process)
            return
        self.pool.waiting.append(process)
        self.dispatch()

    def dispatch(self) -> None:
        """Give waiting starts to idle shims."""
        while self.pool.waiting:
            shim = self.pool.take()
            if shim is None:
                break
            self._give(self.pool.waiting.popleft(), shim)

    def give_up_waiting(self) -> None:
        """Fail the starts that wait for a shim: none can be made."""
        while self.pool.waiting:
            self._give_up(self.pool.waiting.popleft(), None, errno.ENOEXEC, "shim")

    def _give(self, process: ManagedProcess, shim: ShimLink) -> None:
        assert process.listener is not None
        if (lost := lost_of(process)) is not None:  # it was in the memory of an earlier supervisor
            self._give_up(process, shim, errno.EBADF, lost)
            return
        try:
            ends = open_ends(process)
        except OSError as error:  # no more descriptors, or no more terminals
            self._give_up(process, shim, error.errno or errno.EIO, "pipes")
            return
        letters = "L" + "".join(process.fds) + "".join(ends)
        fds = [process.listener.fileno(), *process.fds.values(), *ends.values()]
        shim.process = process
        process.shim = shim
        words = f"spawn {letters} {process.folder}".encode()
        try:
            sockets.send(shim.socket, words, fds)
        except OSError:
            # The shim died while it was idle: what was opened is closed, the start goes to the next shim.
            shim.process = None
            process.shim = None
            for letter in list(process.fds):
                process.close_fd(letter)
            self.pool.waiting.appendleft(process)
            return
        finally:
            for fd in ends.values():
                os.close(fd)
        process.let_go_of_what_was_given()
        hit("start.given")
        for stream in process.streams:
            self.pump.add(stream)

    def _give_up(self, process: ManagedProcess, shim: ShimLink | None, number: int, place: str) -> None:
        for letter in list(process.fds):
            process.close_fd(letter)
        for stream in process.streams:
            stream.is_open = False
        if shim is not None:
            self.pool.give_back(shim)
        self.failed(process, number, place)


def _join(known: ManagedProcess, answer: Answer) -> None:
    """Answer for a start that has been begun already."""
    if known.pid:
        answer({"pid": known.pid, "started_ns": known.started_ns, "existing": True})
    elif known.failed_at is not None:  # it is still in the table, perhaps because its record is owed
        answer(failed_start(known.code, known.failed_at, folder=known.folder))
    elif known.phase >= Phase.EXITED:
        # It failed to start under an earlier supervisor, whose record says how.
        answer(known_start(known.folder))
    else:  # another request has begun the same start: both get its answer
        known.answers.append(answer)


def open_logs(folder: str) -> tuple[int, int, int]:
    """Open a folder's out, err and idx for writing (idx also for reading).

    Err is -1 until something was written to it.

    The logs without O_APPEND, which splice(2) refuses.
    """
    for name in ("out", "err", "idx"):
        set_aside(f"{folder}/{name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    out = os.open(f"{folder}/out", flags, 0o600)
    try:
        err = os.open(f"{folder}/err", os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        err = -1
    return out, err, os.open(f"{folder}/idx", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _lack_behind(number: int | None) -> str | None:
    """Return what the state folder lacks where one of its files met this error; None: it is another error."""
    if number in FULL:
        return "disk_full"
    return "read_only" if number == errno.EROFS else None


def _refusal(error: OSError) -> dict[str, object]:
    slug = _lack_behind(error.errno) or "start_failed"
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        slug = "process_limit"
    return {"error": slug, "message": f"The process folder cannot be made: {os.strerror(error.errno or 0)}."}


def known_start(folder: str) -> dict[str, object]:
    """Answer a repeated start from the files of the first one."""
    record = read_pid(folder)
    if record is not None:
        return {"pid": record.pid, "started_ns": record.started_ns, "existing": True}
    ended = read_end(folder)
    if ended is None or ended.kind != "failed":
        return INTERRUPTED
    return failed_start(ended.number, ended.note, folder=folder)


def failed_start(number: int, place: str, *, folder: str = "") -> dict[str, object]:
    """Translate a shim's `failed` into a reply; `folder` is the process's, whose spec names what the command
    was to run in.
    """
    if place == WITHDRAWN:
        slug = "start_failed"
        text = "The command was cancelled before it was started."
    elif place == "shim":
        slug = "start_failed"
        text = "The keeper cannot execute its own program: nothing ran, and `outlive doctor` says what to do."
    elif place == "pipes":
        slug = "process_limit"
        text = f"No more pipes or terminals can be opened: {os.strerror(number)}."
    elif place == "stdin":
        slug = "stdin_lost"
        text = "The standard input that was lent for the process is not there (any more): it never ran."
    elif place == "secrets":
        slug = "secrets_lost"
        text = "The secrets of the process were in memory only, and are lost: it never ran."
    elif place == "container":
        slug = "container_failed"
        text = f"Nobody answers in the container ({os.strerror(number)}): nothing ran."
    elif place.startswith("sandbox:"):
        slug = "sandbox_unavailable"
        text = (
            f"The sandbox cannot be made ({place.removeprefix('sandbox:')}: {os.strerror(number)}): "
            "nothing ran."
        )
    elif place == "cwd":
        slug = "cwd_missing"
        text = f"The working folder{_named_cwd(folder)} cannot be entered: {os.strerror(number)}."
    elif place in _RECORDS and (lack := _lack_behind(number)) is not None:
        # The state folder took the process folder, and then nothing more: the command is not at fault.
        slug = lack
        text = f"The start cannot be recorded: {os.strerror(number)}."
    else:
        slug = {
            errno.ENOENT: "not_found",
            errno.ENOTDIR: "not_found",
            errno.EACCES: "permission_denied",
            errno.E2BIG: "argument_too_long",
            errno.ENOSPC: "disk_full",
        }.get(number, "start_failed")
        text = f"The program was not started: {os.strerror(number)}."
    return {"error": slug, "message": text}


def _named_cwd(folder: str) -> str:
    """Return a command's working folder as a word of a sentence; empty where its spec cannot be read."""
    spec = stored_spec(read_all(f"{folder}/spec"))
    return "" if spec is None else f" {spec.cwd!r}"


def remembered_spec(folder: str) -> Spec | None:
    """Read a process folder's spec; None when there is none, or it is damaged."""
    return stored_spec(read_all(f"{folder}/spec"), with_command=False)
