"""Run as a command: calls every door of outlive back in some seventy ways, and notes what each got.

Standard library only.

Arguments: a JSON object {doors: {"NAME KIND": port or path}, lines: `calling_lines.LINES`, out: file,
folder: to work in}, where a door's kind is tcp, unix or keeper; for one call of a program that a way has
started also "call" and the file for its answers. An answer is the status, the error's slug of
the keeper, "answered" where that obeyed, or why there was none.
"""

import array
import ctypes
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

_at = json.loads(sys.argv[1])
_DOORS: dict[str, int | str] = _at["doors"]
_PATIENCE_S = 60.0
_HTTP = b"GET /v1/processes?limit=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_KEEPER = b'J{"op": "hello", "role": "cli", "version": 1, "req": 1}'
_LIBC = ctypes.CDLL(None, use_errno=True)
_SUBREAPER, _DUMPABLE, _PIDFD_GETFD = 36, 4, 438


def _is_of(door: str, kind: str) -> bool:
    return door.endswith(kind)


def _open(door: str) -> socket.socket:
    link, where = _unconnected(door)
    link.connect(where)  # type: ignore[arg-type]
    return link


def _send(link: socket.socket, door: str) -> None:
    link.sendall(_KEEPER if _is_of(door, "keeper") else _HTTP)


def _hear(link: socket.socket, door: str) -> str:
    answer = link.recv(1 << 18)
    if not answer:
        return "hung up"
    if _is_of(door, "keeper"):
        return str(json.loads(answer[1:].partition(b"\0")[0]).get("error", "answered"))
    return answer.split()[1].decode()


def _ask(link: socket.socket, door: str) -> str:
    _send(link, door)
    return _hear(link, door)


def _call(out: str) -> None:
    """Ask at every door and write down what came."""
    found = {}
    for door in _DOORS:
        try:
            with _open(door) as link:
                found[door] = _ask(link, door)
        except OSError as error:
            found[door] = type(error).__name__
    with open(out + ".new", "w", encoding="ascii") as file:
        json.dump(found, file)
    os.rename(out + ".new", out)


def _by_line(line: str, number: int) -> dict[str, str]:
    """Have a shell line make the call; what cannot be made on this machine is noted as such."""
    out = f"{_at['folder']}/{number}"
    inner = f"{_at['folder']}/call.{number}"
    with open(inner, "w", encoding="utf-8") as file:  # one word, whatever quotes stand around it
        words = [sys.executable, "-I", "-S", __file__, sys.argv[1], "call", out]
        file.write(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    os.chmod(inner, 0o755)  # noqa: S103 -- a program
    done = subprocess.run(
        ["bash", "-c", line.replace("{call}", inner)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=_PATIENCE_S * 2,
        check=False,
    )
    deadline = time.monotonic() + (_PATIENCE_S if done.returncode == 0 else 1.0)
    while not os.path.exists(out):
        if time.monotonic() > deadline:
            return dict.fromkeys(_DOORS, "not made: " + done.stderr.decode()[-200:])
        time.sleep(0.01)
    with open(out, encoding="ascii") as file:
        found: dict[str, str] = json.load(file)
    return found


def _in_child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def _unconnected(door: str) -> tuple[socket.socket, object]:
    kind = socket.SOCK_SEQPACKET if _is_of(door, "keeper") else socket.SOCK_STREAM
    is_tcp = _is_of(door, "tcp")
    link = socket.socket(socket.AF_INET if is_tcp else socket.AF_UNIX, kind)
    link.settimeout(_PATIENCE_S)
    return link, ("127.0.0.1", _DOORS[door]) if is_tcp else _DOORS[door]


def dead_connector(door: str) -> str:
    """A child connects and dies; its parent asks."""
    link, where = _unconnected(door)
    with link:
        os.waitpid(_in_child(lambda: link.connect(where)), 0)  # type: ignore[arg-type]
        return _ask(link, door)


def dead_asker(door: str) -> str:
    """A child connects, asks and dies; its parent reads the answer."""
    link, where = _unconnected(door)

    def work() -> None:
        link.connect(where)  # type: ignore[arg-type]
        _send(link, door)

    with link:
        os.waitpid(_in_child(work), 0)
        return _hear(link, door)


def half_a_question(door: str) -> str:
    """A child connects, sends half of the question and dies; the parent sends the rest."""
    link, where = _unconnected(door)

    def work() -> None:
        link.connect(where)  # type: ignore[arg-type]
        if not _is_of(door, "keeper"):
            link.sendall(_HTTP[:20])

    with link:
        os.waitpid(_in_child(work), 0)
        link.sendall(_KEEPER if _is_of(door, "keeper") else _HTTP[20:])
        return _hear(link, door)


def _told_by(asker: Callable[[str], str], door: str, *, detour: bool) -> str:
    """Return what a child, or an orphan of a child, was told."""
    reader, writer = os.pipe()

    def work() -> None:
        try:
            said = asker(door)
        except OSError as error:
            said = type(error).__name__
        os.write(writer, said.encode())

    pid = _in_child((lambda: _in_child(work)) if detour else work)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        return answers.read()


def heir(door: str) -> str:
    """The parent connects; a child that has the socket asks."""
    with _open(door) as link:
        return _told_by(lambda name: _ask(link, name), door, detour=False)


def orphaned_heir(door: str) -> str:
    """The same, by an orphan."""
    with _open(door) as link:
        return _told_by(lambda name: _ask(link, name), door, detour=True)


def orphan(door: str) -> str:
    """Forked twice, no program executed."""
    return _told_by(lambda name: _ask(_open(name), name), door, detour=True)


def new_session(door: str) -> str:
    """A session of its own, without another program."""

    def ask(name: str) -> str:
        os.setsid()
        return _ask(_open(name), name)

    return _told_by(ask, door, detour=True)


def thread(door: str) -> str:
    """A thread connects and asks."""
    said: list[str] = []
    one = threading.Thread(target=lambda: said.append(_ask(_open(door), door)))
    one.start()
    one.join()
    return said[0] if said else "nothing"


def ended_thread(door: str) -> str:
    """A thread connects and ends; another one asks."""
    links: list[socket.socket] = []
    one = threading.Thread(target=lambda: links.append(_open(door)))
    one.start()
    one.join()
    with links[0] as link:
        return _ask(link, door)


def _passed(door: str, *, is_dead: bool, is_orphan: bool) -> str:
    """A child connects and hands its socket over (unix(7), SCM_RIGHTS)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    held, release = os.pipe()

    def work() -> None:
        os.close(release)
        link = _open(door)
        theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [link.fileno()]))])
        if not is_dead:
            os.read(held, 1)

    pid = _in_child((lambda: _in_child(work)) if is_orphan else work)
    theirs.close()
    if is_dead or is_orphan:
        os.waitpid(pid, 0)
    _, rights, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    fd = array.array("i", rights[0][2][:4])[0] if rights else -1
    try:
        if fd < 0:
            return "not handed over"
        with socket.socket(fileno=fd) as link:
            link.settimeout(_PATIENCE_S)
            return _ask(link, door)
    finally:
        os.close(release)
        os.close(held)
        ours.close()


def handed_over(door: str) -> str:
    """By a child that lives on."""
    return _passed(door, is_dead=False, is_orphan=False)


def handed_over_by_the_dead(door: str) -> str:
    """By a child that is dead when it is used."""
    return _passed(door, is_dead=True, is_orphan=False)


def handed_over_by_an_orphan(door: str) -> str:
    """By an orphan, which lives on."""
    return _passed(door, is_dead=False, is_orphan=True)


def stolen(door: str) -> str:
    """A child connects; its socket is taken out of it (pidfd_getfd(2))."""
    reader, writer = os.pipe()
    held, release = os.pipe()

    def work() -> None:
        os.close(release)
        os.write(writer, str(_open(door).fileno()).encode())
        os.read(held, 1)

    pid = _in_child(work)
    os.close(writer)  # where the child cannot connect it says nothing
    link = _taken_from(pid, os.read(reader, 16))
    os.close(release)
    if link is None:
        return "not allowed"
    with link:
        return _ask(link, door)


def _taken_from(pid: int, number: bytes) -> socket.socket | None:
    if not number:
        return None
    pidfd = os.pidfd_open(pid)
    fd = _LIBC.syscall(_PIDFD_GETFD, pidfd, int(number), 0)
    os.close(pidfd)
    if fd < 0:
        return None
    link = socket.socket(fileno=fd)
    link.settimeout(_PATIENCE_S)
    return link


def not_dumpable(door: str) -> str:
    """A process that closes its /proc to others of its user (prctl(2), PR_SET_DUMPABLE)."""
    return _told_by(
        lambda name: (_LIBC.prctl(_DUMPABLE, 0, 0, 0, 0), _ask(_open(name), name))[1], door, detour=True
    )


def subreaper(door: str) -> str:
    """A process that adopts its own orphans asks by one of them."""
    return _told_by(lambda name: (_LIBC.prctl(_SUBREAPER, 1, 0, 0, 0), orphan(name))[1], door, detour=True)


def wiped(door: str) -> str:
    """An orphan that has overwritten its own environment, which /proc shows from its memory."""

    def ask(name: str) -> str:
        with open("/proc/self/stat", encoding="ascii") as stat:
            begin, end = map(int, stat.read().rpartition(")")[2].split()[47:49])
        ctypes.memset(begin, 0, end - begin)
        os.setsid()
        return _ask(_open(name), name)

    return _told_by(ask, door, detour=True)


def bound(door: str) -> str:
    """From an address of one's own: another one of loopback, or a path."""
    link, where = _unconnected(door)
    with link:
        link.bind(("127.0.0.2", 0) if _is_of(door, "tcp") else f"\0{os.urandom(8).hex()}")
        link.connect(where)  # type: ignore[arg-type]
        return _ask(link, door)


def shut(door: str) -> str:
    """Nothing more is written after the question."""
    with _open(door) as link:
        _send(link, door)
        link.shutdown(socket.SHUT_WR)
        return _hear(link, door)


_FUNCTIONS = (
    dead_connector, dead_asker, half_a_question, heir, orphaned_heir, orphan, new_session, thread, ended_thread,  # noqa: E501 -- cut nowhere better: a table, or another program's text
    handed_over, handed_over_by_the_dead, handed_over_by_an_orphan, stolen, not_dumpable, subreaper, wiped, bound, shut,  # noqa: E501 -- cut nowhere better: a table, or another program's text
)  # fmt: skip


def _try(way: Callable[[str], str], door: str) -> str:
    try:
        return way(door)
    except (OSError, IndexError) as error:  # the second: its thread could not connect
        return type(error).__name__


def main() -> None:
    """Try every way, and write {way: {door: answer}}."""
    if sys.argv[2:3] == ["call"]:
        _call(sys.argv[3])
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    found = {name: _by_line(line, number) for number, (name, line) in enumerate(_at["lines"].items())}
    for way in _FUNCTIONS:
        found[way.__name__.replace("_", " ")] = {door: _try(way, door) for door in _DOORS}
    with open(_at["out"] + ".new", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.rename(_at["out"] + ".new", _at["out"])


if __name__ == "__main__":
    main()
