"""The guardian's warm-up: commands run through a shim of its own, so that forked shims share what running touches."""

import contextlib
import os
import socket
from collections.abc import Callable

from outlive.keeper import failpoints, kernel, lock_proof, locks, shim, shim_files, sockets
from outlive.keeper.disk import look_at
from outlive.keeper.files import remove_folder, write_whole
from outlive.keeper.image import Recorder
from outlive.keeper.kernel import die_with
from outlive.keeper.lock_proof import WatchedLock
from outlive.keeper.locks import take_lock
from outlive.protocols import frames
from outlive.protocols.frames import SPEC_VERSION, encode_exec

__all__ = ["WARM_UP", "warm_up"]

WARM_UP = "warm-up."  # begins the names of its folders; who was killed leaves one behind

_SHIM_PARTS = (
    failpoints,
    frames,
    kernel,
    lock_proof,
    locks,
    shim_files,
    sockets,
    shim,
    shim.Holdings,
    shim.Shim,
    frames.ExitRecord,
)
# CPython 3.11 specializes code after 8 runs, and that is a write to its page.
_COMMANDS = 16


def warm_up(
    state_dir: str, *, lock: WatchedLock, wake: int, alarm: int, log: Callable[[str], None]
) -> shim.Shim:
    """Run commands through a shim in this very process; a forked child plays the supervisor.

    Returns the shim, whose lock is `lock`; where no folder can be written it has not run anything.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = _make_folder(state_dir)
    if folder is None:
        log("warm-up left out: no folder can be written")
        theirs.close()
        return shim.Shim(socket.SocketType(fileno=ours.detach()), lock=lock, wake=wake, alarm=alarm)
    guardian = os.getpid()
    driver = os.fork()
    if not driver:
        try:
            die_with(guardian)  # else it would go on holding the guardian's lock
            ours.close()
            assert take_lock(f"{folder}/lock") is not None
            _drive(theirs, folder)
        finally:
            os._exit(0)
    theirs.close()
    ours.setblocking(False)  # noqa: FBT003 - positional only
    link = socket.SocketType(fileno=ours.detach())
    warm = shim.Shim(link, lock=WatchedLock(f"{folder}/lock"), wake=wake, alarm=alarm)
    recorder = Recorder()
    try:
        for turn in range(_COMMANDS):
            if turn == 1:
                recorder.gather(_SHIM_PARTS)
            warm.run(os.dup(link.fileno()))
    except (OSError, AssertionError) as error:
        log(f"warm-up failed: {error!r}")
    warm.lock.close()
    warm.lock = lock
    remove_folder(folder)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(driver, 0)
    return warm


def _make_folder(state_dir: str) -> str | None:
    """Make a folder for what the commands need: elsewhere where the state folder takes nothing (it is full, for example)."""
    places = (state_dir, "/dev/shm", "/tmp")  # noqa: S108 - the folder's name is new, and nobody else may look into it
    for place in places:
        if look_at(place) is not None:
            continue
        folder = (
            f"{place}/{WARM_UP}{os.getpid()}"
            if place == state_dir
            else f"{place}/outlive-{os.urandom(8).hex()}"
        )
        try:
            os.mkdir(folder, 0o700)
            write_whole(f"{folder}/lock", b"\0" * 4096)
        except OSError:
            remove_folder(folder)
            continue
        return folder
    return None


def _drive(link: socket.socket, folder: str) -> None:
    """Play the supervisor, and in the middle of each command its successor."""
    patience_s = 60  # dying between two packets of a command would leave the shim holding it
    link.settimeout(patience_s)
    program = next((path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path)), "/nonexistent")
    with open(f"{folder}/spec", "wb") as file:
        file.write(SPEC_VERSION + b" 2\n{}" + encode_exec(program, "/", ("true",), {"A": "b"}))
    listener = sockets.listen_unix(f"{folder}/sock")
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for _ in range(_COMMANDS):
        for name in ("pid", "exit"):
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        link.recv(100)
        sockets.send(link, b"spawn LoeIOE " + folder.encode(), (listener.fileno(), *[null] * 5))
        link.recv(100)
        link = sockets.connect_unix(f"{folder}/sock")
        link.settimeout(patience_s)
        if link.recv(100).split()[5] == b"-":  # the state; it had not ended yet
            link.recv(100)
        link.send(b"release")
        link.send(b"quit")
