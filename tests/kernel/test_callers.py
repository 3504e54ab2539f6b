"""Callers of a Unix socket on a kernel that tells neither a pidfd of the peer nor its socket: by their start
alone.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from outlive.kernel.callers import PeerProcess

# What listens, in a process of its own, because the kernel's gifts are looked at when the module is imported.
_LISTENER = """
import socket, sys, time
from outlive.kernel.callers import AcceptTurns, PeerProcess
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen()
turns = AcceptTurns()
print("ready", flush=True)
for _ in range(3):
    connection = listener.accept()[0]
    caller = PeerProcess.behind(connection, turns)
    print(caller.is_there(), flush=True)
    caller.close()
"""
_CALLER = """
import socket, sys
for line in sys.stdin:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(sys.argv[1])
    connection.recv(1)  # until the other side has judged
"""


@pytest.mark.promise("A.inside")
def test_a_caller_counts_if_it_began_before_the_turn_in_which_its_connection_was_made(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    env = {"OUTLIVE_DEGRADE": "peer_pidfd,unix_diag", "PYTHONPATH": "src"}
    words = [sys.executable, "-c", _LISTENER, path]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        try:
            assert listener.stdout.readline() == "ready\n"
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as older:  # this process
                older.connect(path)
                assert listener.stdout.readline() == "True\n"
            words = [sys.executable, "-c", _CALLER, path]
            with subprocess.Popen(words, stdin=subprocess.PIPE, text=True) as younger:
                assert younger.stdin is not None
                younger.stdin.write("\n")
                younger.stdin.flush()
                assert listener.stdout.readline() == "False\n"
                younger.kill()
        finally:
            listener.kill()


@pytest.mark.promise("A.inside")
def test_a_process_that_holds_its_socket_no_more_counts_as_gone() -> None:
    with socket.socket() as held:
        caller = PeerProcess.holding(os.fstat(held.fileno()).st_ino, os.getpid(), os.getuid())
        assert caller.is_there()
    assert not caller.is_there()
    caller.close()
