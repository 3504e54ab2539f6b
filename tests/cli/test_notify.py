"""sd_notify over a real socket, and what commands learn of the unit they were started from: nothing."""

import contextlib
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.cli.server.keeper import Notifier
from tests.cli.launching import launched
from tests.support.rpc import connect


@contextlib.contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    """Listen as systemd does; "@" stands for the abstract namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if address.startswith("@") else address)
        listener.settimeout(30)
        yield listener


@pytest.mark.parametrize("is_abstract", [False, True])
def test_words_arrive_in_one_datagram_and_the_variable_is_gone(is_abstract: bool, tmp_path: Path) -> None:
    address = f"@outlive-{uuid.uuid4()}" if is_abstract else str(tmp_path / "notify")
    environ = {"NOTIFY_SOCKET": address, "A": "b"}
    with listening(address) as listener:
        assert Notifier(environ).notify("READY=1", "STATUS=fine")
        assert listener.recv(1000) == b"READY=1\nSTATUS=fine"
    assert environ == {"A": "b"}


@pytest.mark.parametrize("address", ["", "nonsense", "vsock:2:1", "/nowhere/at/all"])
def test_where_nobody_listens_nothing_happens(address: str) -> None:
    assert not Notifier({"NOTIFY_SOCKET": address}).notify("READY=1")
    assert not Notifier({}).notify("READY=1")


async def test_the_server_says_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    """READY comes when it listens; commands see neither the socket nor the unit's other variables."""
    unit = {
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "INVOCATION_ID": "1",
        "JOURNAL_STREAM": "1:2",
        "SYSTEMD_EXEC_PID": "1",
    }
    with (
        listening(unit["NOTIFY_SOCKET"]) as systemd,
        launched(tmp_path / "state", "--print-json", "--jsonrpc-port", "0", env=unit) as server,
    ):
        port = server.ready()["ports"]["jsonrpc"]
        assert systemd.recv(1000).splitlines()[0] == b"READY=1"
        async with connect(f"ws://127.0.0.1:{port}/ws/mcp") as client:
            seen = (await client.run("env")).stdout
        assert "OUTLIVE_PROCESS_ID=" in seen
        assert [name for name in unit if f"{name}=" in seen] == []
        code, _, _ = server.end()
        assert code == 0
        assert systemd.recv(1000) == b"STOPPING=1"
