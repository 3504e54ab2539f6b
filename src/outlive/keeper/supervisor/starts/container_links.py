"""Starts inside containers: the runner there does the shim's work, and gets the command's descriptors
(decision 121).

The runner serves each connection by a process of its own, the shim of one command. It speaks the shim's
protocol (`native/shim/shim_loop.h`) with a few words more, because it sees neither our files nor our process
ids:

  to the shim      terminal ROWS COLS  before `spawn`: the command gets a terminal of the container's own
                   spawn LETTERS FOLDER   X is the spec file, P the `pid` file, F a script in memory (descriptor 3 inside)
                   go LINE             execute; LINE is the pid record, to be written once the program runs
  from the shim    prove OFFSET       asks whether the supervisor's lock is ours (`lock_challenge`), before it obeys
                   born LETTERS        the command's process exists and waits: p its pidfd, m its terminal's master

Which container a command runs in is decided by the backend; this module only connects and hands over.
"""  # noqa: E501 -- lines of a table, or of another language

import errno
import os
import time
from collections.abc import Callable

from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.keeper.supervisor.lock_challenge import LockChallenge
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, ShimLink, in_memory, lost_of, open_ends
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.starts.shim_pool import ShimPool
from outlive.kernel import sockets
from outlive.kernel.failpoints import hit
from outlive.kernel.files import read_small
from outlive.kernel.processes import boottime_ns, pid_behind, start_ticks, stat_fields, this_boot
from outlive.protocols.frames import pid_line

_RETRY_S = 0.01  # until a busy runner is connected to again
_PATIENCE_S = 10.0  # for a runner whose backlog is full: there are many starts, or it is stopped


@dataclass(eq=False, slots=True)
class ContainerLinks:
    """Connects to the runners of containers. `failed` is called for a start that no runner accepts.

    `pool` watches the links, as it does for all shims; `pump` moves what the pipes bring.
    """

    loop: Loop
    layout: Layout
    pool: ShimPool
    pump: Pump
    challenge: LockChallenge
    failed: Callable[[ManagedProcess, int, str], None]

    def start(self, process: ManagedProcess) -> None:
        """Give a command to the runner of its container."""
        if (lost := lost_of(process)) is not None:
            self._give_up(process, errno.EBADF, lost)
            return
        try:
            ends = open_ends(process)
        except OSError as error:
            self._give_up(process, error.errno or errno.EIO, "pipes")
            return
        for stream in process.streams:
            if stream.source >= 0:
                self.pump.add(stream)
        self._give(process, ends, time.monotonic() + _PATIENCE_S)

    def _give(self, process: ManagedProcess, ends: dict[str, int], deadline: float) -> None:
        """Connect, and hand over once the runner has accepted us.

        A busy one is connected to again until the deadline.
        """
        try:
            link = self._dial(process.spec.container)
        except BlockingIOError:
            self._give_later(process, ends, deadline, errno.EAGAIN)
            return
        except OSError as error:
            self._refuse(process, ends, error.errno or errno.EIO)
            return
        link.process = process
        process.shim = link
        self.challenge.meet(
            link.socket, lambda words, fds, _: self._met(link, ends, deadline, words, fds), answers=True
        )

    def _met(
        self, link: ShimLink, ends: dict[str, int], deadline: float, words: bytes, fds: list[int]
    ) -> None:
        """Go on with a runner that has greeted us, or has closed the connection."""
        for fd in fds:
            os.close(fd)
        process = link.process
        if process is None:  # the start was given up meanwhile
            link.socket.close()
            for fd in ends.values():
                os.close(fd)
        elif words.startswith(b"hello "):
            self._hand_over(process, link, ends)
        else:
            link.socket.close()
            process.shim = None
            self._give_later(process, ends, deadline, errno.ECONNREFUSED)

    def _give_later(
        self, process: ManagedProcess, ends: dict[str, int], deadline: float, number: int
    ) -> None:
        if time.monotonic() < deadline:
            self.loop.later(_RETRY_S, lambda: self._give(process, ends, deadline))
        else:
            self._refuse(process, ends, number)

    def _hand_over(self, process: ManagedProcess, link: ShimLink, ends: dict[str, int]) -> None:
        files: dict[str, int] = {}
        try:
            files = _files(process)
            _hand_over(process, link, {**ends, **files})
        except OSError as error:
            link.socket.close()
            process.shim = None
            self._refuse(process, ends, error.errno or errno.EIO)
            return
        finally:
            for fd in files.values():
                os.close(fd)
        for fd in ends.values():
            os.close(fd)
        process.let_go_of_what_was_given()
        hit("container.given")
        self.pool.adopt(link)

    def _dial(self, container: str) -> ShimLink:
        """Connect to a runner.

        Raises:
            OSError: No process listens; or the listener is not the container's first process (EPERM).
        """
        connection = sockets.connect_own(self.layout.runner_socket(container), names_senders=True)
        # Nothing inside can reach that path (decision 137). Still, descriptors go to the container's first
        # process only.
        init = read_small(f"{self.layout.container(container)}/init")
        if init.strip() != b"%d" % sockets.peer_of(connection)[0]:
            connection.close()
            raise OSError(errno.EPERM, "not the runner")
        return ShimLink(connection, is_inside=True)

    def _refuse(self, process: ManagedProcess, ends: dict[str, int], number: int) -> None:
        for fd in ends.values():
            os.close(fd)
        self._give_up(process, number, "container")

    def _give_up(self, process: ManagedProcess, number: int, place: str) -> None:
        self.pump.forget(process)
        for stream in process.streams:
            stream.is_open = False
        for letter in list(process.fds):
            process.close_fd(letter)
        self.failed(process, number, place)


def _files(process: ManagedProcess) -> dict[str, int]:
    """Open the files that the shim inside reads and writes; it cannot find them by their names."""
    files = {"X": os.open(f"{process.folder}/spec", os.O_RDONLY | os.O_CLOEXEC)}
    try:
        files["P"] = os.open(
            f"{process.folder}/pid", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            with open(f"{process.folder}/script", "rb") as script:
                files["F"] = in_memory(script.read())
        except FileNotFoundError:
            pass
    except OSError:
        for fd in files.values():
            os.close(fd)
        raise
    return files


def _hand_over(process: ManagedProcess, link: ShimLink, given: dict[str, int]) -> None:
    assert process.listener is not None
    if process.spec.stdio == "pty":
        sockets.send(link.socket, b"terminal %d %d" % (process.spec.rows, process.spec.cols))
    letters = "L" + "".join(process.fds) + "".join(given)
    words = f"spawn {letters} {process.folder}".encode()
    if not sockets.send(
        link.socket, words, [process.listener.fileno(), *process.fds.values(), *given.values()]
    ):
        raise BlockingIOError(errno.EAGAIN, "the runner takes nothing")


def take_birth(process: ManagedProcess, shim: ShimLink, held: dict[str, int]) -> bool:
    """Let a command that was born execute; False when it is dead already, or its pid cannot be found out.

    `held` are the descriptors that came with the report; they belong to `process` afterwards.
    """
    process.take_pidfd(held.pop("p", -1))
    for letter, fd in held.items():
        process.close_fd(letter)
        process.fds[letter] = fd
        os.set_blocking(fd, False)
    # Our own number for it: the pid inside the container means nothing here.
    pid = pid_behind(process.pidfd) if process.pidfd >= 0 else 0
    fields = stat_fields(pid) if pid else []
    if not fields:
        return False
    shim.pid = int(fields[1])
    hit("container.born")
    pipe = os.fstat(process.fds["i"]).st_ino if "i" in process.fds else 0
    line = pid_line(
        pid, start_ticks(pid), time.time_ns(), boottime_ns(), shim.pid, pipe, this_boot().encode()
    )
    return sockets.send(shim.socket, b"go " + line.rstrip(b"\n"))
