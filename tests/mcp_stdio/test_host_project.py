"""`HostProject`: what a relay shows of its host to a server that takes it, cannot take it now, or refuses."""

import socket
import threading

import pytest

from outlive.discovery.server import Server
from outlive.frontends.mcp.stdio.relay import HostProject
from outlive.protocols.mcp.messages import PROJECT_HEADER

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}"
_REFUSED = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\n{}"
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
            project.headers()
    assert project.headers() == [(PROJECT_HEADER, "ab")]


def test_a_project_that_is_refused_is_asked_for_again() -> None:
    """What the caller may not send now it may send to the next server, or with another token."""
    project = HostProject(_AnsweringServer(_REFUSED, _REFUSED, _TAKEN), b"{}")
    assert project.headers() == []
    assert project.headers() == []
    assert project.headers() == [(PROJECT_HEADER, "ab")]
