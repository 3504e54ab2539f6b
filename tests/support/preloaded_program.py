"""Has the modules of `outlive serve` loaded, and forks itself for each server or verb that a test asks for: a
process of its own.

Run as `python preloaded_program.py PADDING` by `tests.support.preloaded`, with a socket as stdin. A request
is one message: a JSON object (`words`, `env`, `cwd`, `umask`) with the descriptors 0, 1 and 2 of the new
process and a pipe for its end. The answer is its pid with a pidfd. Once it has ended, its exit code (or minus
the signal) is written into the pipe. Ends when the other end of its socket is closed.

A fork is what `outlive WORDS` is after its imports: the same entry (`cli.main.main`), environment, folder,
umask, descriptors, signals and command line. What it does not have is the order of imports, which servers
that are executed go through.
"""

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
from typing import Any

_REQUEST_BYTES = 1 << 18  # an environment, mostly
_MOST_DESCRIPTORS = 65_536


def main() -> None:
    """Load, and answer requests; in a fork run the command line that was asked for."""
    gc.disable()  # as `outlive` does while it imports
    _load()
    gc.freeze()
    request = _serve(socket.socket(fileno=os.dup(0)))
    if request is not None:
        _become(request)
        from outlive.cli.main import main as outlive  # noqa: PLC0415 -- loaded already

        outlive()


def _load() -> None:
    # What `serve` imports, in its order.
    import outlive.cli.main  # noqa: PLC0415
    import outlive.cli.runner  # noqa: PLC0415
    import outlive.cli.server.serve  # noqa: PLC0415
    import outlive.cli.server.server_process  # noqa: PLC0415

    # And what most verbs do.
    import outlive.cli.verbs.run  # noqa: PLC0415
    import outlive.client.client  # noqa: F401, PLC0415


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return the request in the fork, None when no more can come."""
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    ends: dict[int, int] = {}  # pid -> the pipe for its end
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if woken in ready:
                os.read(woken, 4096)
                _report(ends)
            if control.fileno() not in ready:
                continue
            message, files, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 4)
            if not message:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, file in enumerate(files[:3]):
                    os.dup2(file, number)
                os.closerange(3, _MOST_DESCRIPTORS)
                control.detach()
                request: dict[str, Any] = json.loads(message)
                return request
            *given, ends[pid] = files
            for file in given:
                os.close(file)
            pidfd = os.pidfd_open(pid)
            socket.send_fds(control, [b"%d" % pid], [pidfd])
            os.close(pidfd)


def _report(ends: dict[int, int]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        end = ends.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # a test that does not wait for it
            os.write(end, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(end)


def _become(request: dict[str, Any]) -> None:
    """Take over what a program is given when it is executed."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if request["umask"] >= 0:
        os.umask(request["umask"])
    sys.argv = request["words"]
    _show_command_line([sys.executable, *sys.argv])


def _show_command_line(words: list[str]) -> None:
    """Write the words where the kernel reads the command line (proc_pid_cmdline(5)): over our own, whose
    padding makes room.
    """
    with open("/proc/self/stat", "rb") as file:
        begin, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    text = b"\0".join(map(os.fsencode, words))
    if len(text) >= end - begin:
        raise AssertionError(f"a command line of {len(text)} bytes has no room in {end - begin}")
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(begin)
        memory.write(text.ljust(end - begin, b"\0"))
    with open("/proc/self/comm", "wb") as name:
        name.write(os.path.basename(words[1]).encode())


if __name__ == "__main__":
    main()
