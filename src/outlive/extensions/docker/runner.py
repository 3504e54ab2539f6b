"""A container's runner: `SocketHandover` gives it the socket on which it listens, `RunnerHandle` finds out
whether it answers, `RunnerAccess` does both for a running container.

The socket's name lies in the container's folder, which is not mounted: no command inside can delete or
replace it. The container sees only `hand`, read-only, where the server listens during the handover. The
container's first process connects there by itself (native/runner/server.c). It gets the socket, and
the supervisor's lock read-only: by that it recognizes a supervisor (decisions 137 and 151).

A handle asks the kernel and the runner, never the daemon. A command inside can disable its runner, for
example by taking its descriptors away. The next command must start all the same: a container whose runner
does not answer is removed, or, while commands live in it, set aside under another name. Making and starting
containers belongs to `maker`.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import select
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.extensions.docker import folders
from outlive.extensions.docker.api import NODE_HINT, NODE_WORDS, DockerApi, daemon_elsewhere
from outlive.extensions.docker.recipe import HAND_NAME, aside_name, is_set_aside
from outlive.kernel.processes import children

Connect = Callable[[str], socket.socket]

_UCRED = struct.Struct("3i")
_FOR_ALL = 0o666  # the container's user may be any; the folder above keeps all other users out
_OURS = 0o600
_KIND = socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_BACKLOG = 64
# After a greeting the runner is not asked again for so long: each connection costs it a fork.
_TRUSTED_S = 1.0
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1
_GREETING_BYTES = 64


def mark_of(lock: str) -> str:
    """Return the lock's device and inode, by which the runner recognizes it: they are in its command line.

    Blocks.

    Raises:
        OSError: The lock is missing, and cannot be made.
    """
    fd = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OURS)
    try:
        about = os.fstat(fd)
    finally:
        os.close(fd)
    return f"{about.st_dev}:{about.st_ino}"


class SocketHandover:
    """One server's side of the handover; only one of several servers listens at a time. Blocks: use a thread.

    `close` it.
    """

    def __init__(self, layout: Layout, name: str, *, lock: str) -> None:
        """Listen for the container of a name, whose folders exist, unless another server listens for it.

        `lock`: the supervisor's.
        """
        self._lock_path = lock
        self._socket_name = os.path.basename(layout.runner_socket(name))
        self._folder = os.open(layout.container(name), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._hand = -1
        self._lock = -1
        self._listener: socket.socket | None = None
        self._path = folders.hand_folder(layout, name)
        try:
            self._listen()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening, and remove the socket from the mounted folder."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                os.unlink(HAND_NAME, dir_fd=self._hand)
            self._listener.close()
        for fd in (self._lock, self._hand, self._folder):
            if fd >= 0:
                os.close(fd)

    def turn(self, pid: int) -> None:
        """Give the runner its socket, if it has connected; `pid` is the container's first process, no other
        one gets it.

        Raises:
            OSError: The folder cannot be written, or no descriptor is left.
        """
        listener = self._listener or self._listen()
        while listener is not None:
            try:
                link, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            with link:
                raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
                if _UCRED.unpack(raw)[0] == pid:
                    with contextlib.suppress(ConnectionError):  # the container has ended
                        self._give(link)

    def _listen(self) -> socket.socket | None:
        """Listen in the mounted folder; None while another server does."""
        if self._lock < 0:
            self._lock = os.open(
                f"/proc/self/fd/{self._folder}/hand.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OURS
            )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if self._hand < 0:
            self._hand = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener = _bound(self._hand, HAND_NAME, _FOR_ALL)
        self._listener.listen(_BACKLOG)
        return self._listener

    def _give(self, link: socket.socket) -> None:
        """Send a new socket that is bound but not listening: no client can connect before the runner listens
        on it.
        """
        partial = f"{self._socket_name}.new"
        with _bound(self._folder, partial, _OURS) as given:
            os.rename(partial, self._socket_name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            lock = os.open(self._lock_path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OURS)
            try:
                socket.send_fds(link, [b"listen asking"], [given.fileno()])
                socket.send_fds(link, [b"lock"], [lock])
            finally:
                os.close(lock)


@contextlib.asynccontextmanager
async def offered_socket(layout: Layout, name: str) -> AsyncIterator[SocketHandover]:
    """Listen for a container's first process while the block runs: from before its start until its runner
    answers.
    """
    handover = await asyncio.to_thread(SocketHandover, layout, name, lock=layout.supervisor_lock)
    try:
        yield handover
    finally:
        await asyncio.to_thread(handover.close)


def _bound(folder: int, name: str, mode: int) -> socket.socket:
    """Return a socket that is bound to this name in a folder; an older file of that name is removed."""
    path = f"/proc/self/fd/{folder}/{name}"  # the whole path may be longer than sockets take
    made = socket.socket(socket.AF_UNIX, _KIND)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        made.bind(path)
        os.chmod(path, mode)
    except OSError:
        made.close()
        raise
    return made


class RunnerHandle:
    """The runner of one running container; `close` it. Asks only the kernel and the runner."""

    def __init__(self, path: str, pid: int, *, connect: Connect) -> None:
        """Take the runner's socket, the pid of the container's first process, and how to connect.

        Raises:
            ProcessLookupError: There is no such process.
        """
        self.pid = pid
        self._path = path
        self._connect = connect
        self._pidfd = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._pidfd, select.POLLIN)
        self._heard_at = float("-inf")
        self._asking = asyncio.Lock()
        self._asked = 0
        self._is_closed = False

    @property
    def is_alive(self) -> bool:
        """Whether the first process runs; its number cannot have been given to another one."""
        return not self._is_closed and not self._poll.poll(0)

    @property
    def is_trusted(self) -> bool:
        """Whether the runner has greeted a moment ago, and lives."""
        return time.monotonic() - self._heard_at < _TRUSTED_S and self.is_alive

    def is_open(self) -> bool:
        """Tell whether the runner lives and listens, as far as that is known without waiting."""
        if not self.is_alive:
            return False
        try:
            link = self._dial()
        except BlockingIOError:
            return True  # its backlog is full: it listens
        if link is None:
            return False
        with link:
            _say_goodbye(link)
        return True

    async def answers(self, within_s: float) -> bool:
        """Tell whether the runner works: it has to greet a new connection, by a process that it forks for it.

        A runner that listens may still be unable to do that: a command inside can lower its limit of
        descriptors (prlimit(2)), or stop it. Callers at the same time share one attempt. Cancellation: safe.
        """
        asked = self._asked
        async with self._asking:
            if self.is_trusted:
                return True
            if self._asked != asked:  # another caller has asked while this one waited, and got no answer
                return False
            deadline, pause_s = time.monotonic() + within_s, _PAUSE_S
            self._asked += 1
            while self.is_alive and (left_s := deadline - time.monotonic()) > 0:
                with contextlib.suppress(BlockingIOError):  # its backlog is full: try again
                    if not (link := self._dial()):
                        return False
                    with link:
                        if await _is_greeted(link, left_s):
                            self._heard_at = time.monotonic()
                            return self.is_alive
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            return False

    def close(self) -> None:
        """Close the pidfd."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self._pidfd)

    def _dial(self) -> socket.socket | None:
        """Connect; None when no process listens, or another one than the container's first (listen(2),
        SO_PEERCRED).

        Raises:
            BlockingIOError: A process listens, and its backlog is full.
        """
        try:
            link = self._connect(self._path)
        except BlockingIOError:
            raise
        except OSError:
            return None
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        if _UCRED.unpack(credentials)[0] == self.pid:
            return link
        link.close()  # another process has taken the socket's place: it gets no byte
        return None


async def _is_greeted(link: socket.socket, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            greeting = await asyncio.get_running_loop().sock_recv(link, _GREETING_BYTES)
    except (TimeoutError, ConnectionError):
        return False
    _say_goodbye(link)
    # "prove": the runner asks for a proof that a supervisor speaks (decision 151). None is needed here: it
    # has answered.
    return greeting.startswith((b"hello", b"prove "))


def _say_goodbye(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.send(b"quit")  # so that the process that the runner has forked for this connection ends at once


_logger = logging.getLogger(__name__)

_LISTENS_S = 15.0  # the runner needs 2 ms; a machine that swaps needs seconds
_GREETS_S = 5.0  # of a runner that listens
_KILLED = 137  # the exit code after SIGKILL: 128 + 9
# Each has a container's limits: a caller that breaks runners must not get more and more of them.
_MOST_ASIDE = 3


class Again(Exception):
    """The container went away, or had to be removed: begin anew."""


class Replaced(Again):
    """The container that did not answer is out of the way: begin anew, with a new deadline."""


class _Silent(BackendUnavailable):
    """The daemon answers, the container runs, and its runner does not answer."""


class RunnerAccess:
    """Enters containers of one state folder.

    Cancellation: safe; the next attempt finds what has been done.
    """

    def __init__(self, layout: Layout, *, connect: Connect) -> None:
        """The arguments are those of `Maker`."""
        self._layout = layout
        self._connect = connect

    async def go_in(
        self,
        api: DockerApi,
        plan: ContainerPlan,
        found: Sequence[Mapping[str, Any]],
        container_id: str,
        *,
        is_in_use: bool,
    ) -> RunnerHandle:
        """Enter a container that ran before; `found` are all containers of this name, including those set
        aside.

        Raises:
            Again: It does not answer; room was made for another one.
            OutliveError: As in `enter`; or too many were set aside.
        """
        about = await api.inspect(container_id)
        with contextlib.suppress(_Silent):
            return await self.enter(api, plan, container_id)
        pid = int(about["State"].get("Pid") or 0)
        if not is_in_use or not await asyncio.to_thread(has_commands, pid):
            _logger.info("a container does not answer, and is made anew", extra={"container": plan.name})
            await api.remove(container_id)
            raise Replaced
        if sum(map(is_set_aside, found)) >= _MOST_ASIDE:
            raise StartFailed(
                "container_failed",
                (
                    f"Nothing answers in the container {plan.name}, and {_MOST_ASIDE} like it were set aside "
                    "already."
                ),
                hint=f"End the commands in them: outlive containers rm --force {plan.name}.",
            )
        _logger.warning("a container does not answer, and is set aside", extra={"container": plan.name})
        await api.rename(container_id, aside_name(str(about["Name"]).lstrip("/"), container_id))
        raise Replaced

    def standing(self, name: str, about: Mapping[str, Any]) -> RunnerHandle | None:
        """Return the handle of a paused container's runner; None when it was never entered. Blocks."""
        try:
            handle = RunnerHandle(
                self._layout.runner_socket(name), int(about["State"].get("Pid") or 0), connect=self._connect
            )
        except (ProcessLookupError, OSError):
            return None
        if folders.read_init(self._layout, name) == handle.pid and handle.is_open():
            return handle
        handle.close()
        return None

    async def enter(
        self,
        api: DockerApi,
        plan: ContainerPlan,
        container_id: str,
        *,
        handover: SocketHandover | None = None,
    ) -> RunnerHandle:
        """Wait until the runner answers; `init` is written before.

        `handover` is given for a container that was started just now.

        Raises:
            StartFailed: It has ended, or runs where this server sees no processes.
            BackendUnavailable: The runner does not answer; a container that was started just now is removed.
        """
        about = await api.inspect(container_id)
        pid = int(about["State"].get("Pid") or 0)
        if not about["State"].get("Running") or not pid:
            raise _died(about, plan)
        try:
            handle = RunnerHandle(self._layout.runner_socket(plan.name), pid, connect=self._connect)
        except ProcessLookupError:
            about = await _settled(api, container_id)
            raise (daemon_elsewhere() if about["State"].get("Running") else _died(about, plan)) from None
        try:
            await asyncio.to_thread(folders.write_init, self._layout, plan.name, pid)
            if await self._introduce(plan, handle, handover):
                return handle
            is_dead = not handle.is_alive
        except BaseException:
            handle.close()
            raise
        handle.close()
        if is_dead:
            raise _died(await _settled(api, container_id), plan)
        if handover is not None:
            await remove_quietly(api, container_id)
        raise _Silent(
            "docker_unavailable",
            f"The container {plan.name} runs, but no socket of this machine reaches it, as is usual in "
            "gVisor, Kata and Docker Desktop, and under a rootless daemon.",
            hint=f"Take another --docker-runtime, here or on a node: {NODE_WORDS}"
            if plan.runtime
            else NODE_HINT,
        )

    async def _introduce(
        self, plan: ContainerPlan, handle: RunnerHandle, handover: SocketHandover | None
    ) -> bool:
        """Hand the runner its socket, if it has none yet, and wait for its greeting."""
        if handle.is_open():
            return await handle.answers(_GREETS_S)
        # The server that started it was killed before the handover, or has not handed over yet.
        if handover is None:
            await asyncio.to_thread(folders.prepare_hand, self._layout, plan.name)
            async with offered_socket(self._layout, plan.name) as own:
                return await self._introduce(plan, handle, own)
        deadline, pause_s = time.monotonic() + _LISTENS_S, _PAUSE_S
        while not handle.is_open():
            if not handle.is_alive or time.monotonic() > deadline:
                return False
            await asyncio.to_thread(handover.turn, handle.pid)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        return await handle.answers(_GREETS_S)


async def _settled(api: DockerApi, container_id: str) -> Mapping[str, Any]:
    """Return the daemon's facts about a container, once it has noticed the end that this server has seen
    already.

    That memory ran out it may notice still later: a container that was killed is examined for a second.
    """
    about: Mapping[str, Any] = {}
    for _ in range(50):
        about = await api.inspect(container_id)
        state = about["State"]
        is_explained = state.get("OOMKilled") or state.get("ExitCode") != _KILLED
        if is_explained and not state.get("Running"):
            break
        await asyncio.sleep(0.02)
    return about


async def remove_quietly(api: DockerApi, container_id: str) -> None:
    """Remove a container that could not be entered; a failure is only logged."""
    try:
        await api.remove(container_id)
    except OutliveError as error:
        _logger.warning(
            "a container could not be removed", extra={"container": container_id, "reason": error.code}
        )


def has_commands(pid: int) -> bool:
    """Tell whether any process lives in a container beside the first one, whose children are the commands'
    shims. Blocks.
    """
    return bool(children(pid))


def _died(about: Mapping[str, Any], plan: ContainerPlan) -> OutliveError:
    """Return the error for a container that has ended at once, with the daemon's reason."""
    state = about["State"]
    exit_code = int(state.get("ExitCode") or 0)
    details = {"exit_code": exit_code, "oom": bool(state.get("OOMKilled"))}
    if state.get("OOMKilled"):
        return StartFailed(
            "container_failed",
            f"The container {plan.name} was killed at once: out of memory.",
            hint="Raise --docker-memory.",
            details=details,
        )
    said = str(state.get("Error") or "").strip()
    killed = " (killed)" if exit_code == _KILLED else ""
    return StartFailed(
        "container_failed",
        (
            f"The container {plan.name} ended at once with exit code "
            f"{exit_code}{killed}{': ' + said if said else ''}."
        ),
        details=details,
    )
