"""`HostProject`: what a relay shows of its host to a server that takes it, cannot take it now, or never will."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.discovery.server import Server
from outlive.frontends.mcp.stdio.handshake import HostProject
from outlive.protocols.mcp.project import PROJECT_HEADER

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}"
_OLD = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 2\r\n\r\n{}"
_TAKEN = b'HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{"project":"ab"}'


class _AnsweringServer(Server):
    """Answers each connection with the next of some answers."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    def connect(self, **_: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        threading.Thread(target=_serve, args=(ours, self._answers.pop(0)), daemon=True).start()
        return theirs


def _serve(connection: socket.socket, answer: bytes) -> None:
    with connection:
        connection.recv(65536)
        connection.sendall(answer)


def test_a_project_that_a_busy_server_did_not_take_is_sent_again() -> None:
    """Without it the host's commands would run in the server's own folder."""
    project = HostProject(_AnsweringServer(_BUSY, _BUSY, _TAKEN), b"{}")
    for _ in range(2):
        with pytest.raises(OSError, match="503"):
            project.headers(os.getpid())
    assert project.headers(os.getpid()) == [(PROJECT_HEADER, "ab")]


def test_a_server_that_knows_no_projects_is_asked_once() -> None:
    project = HostProject(_AnsweringServer(_OLD), b"{}")
    assert project.headers(os.getpid()) == []
    assert project.headers(os.getpid()) == []


_LISTEN = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1] + ".new")
listening.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
print("ready", flush=True)
while True:
    connection = listening.accept()[0]
    with connection:
        connection.recv(65536)
        connection.sendall(sys.argv[2].encode())
"""


@contextlib.contextmanager
def _listening(path: str, answer: bytes) -> Iterator[int]:
    """Start a server in a process of its own that gives one answer to everything; return its pid."""
    words = [sys.executable, "-S", "-c", _LISTEN, path, answer.decode()]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()
            os.unlink(path)


def test_a_server_that_took_the_place_of_one_that_knows_no_projects_is_asked(tmp_path: Path) -> None:
    """An upgrade while the host works: without it, its commands would run in the server's folder until the host's end."""
    layout = Layout(str(tmp_path))
    project = HostProject(Server(layout, say=print), b"{}")
    with _listening(layout.server_socket, _OLD) as pid:
        assert project.headers(pid) == []
    with _listening(layout.server_socket, _TAKEN) as pid:
        assert project.headers(pid) == [(PROJECT_HEADER, "ab")]
