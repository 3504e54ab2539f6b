"""Who may knock: loopback only, own Origin only, own Host only, on every route and on the upgrade."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper.client import until
from tests.support.raw import http_get, upgrade
from tests.support.server import OutliveServer

_FOREIGN_ORIGINS = [
    "http://evil.example",
    "https://evil.example",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://127.0.0.1:x",
    "null",
    "file://",
    "vscode-webview://x",
    "http://evil.example@127.0.0.1",
    "nonsense",
]
_FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example",
    "localhost.evil.example:{port}",
    "10.1.2.3",
    "evil@127.0.0.1",
]
_PATHS = ["/", "/ws/mcp", "/no/such/route", "/docs"]


@pytest.mark.promise("A.origin", "S4.10")
@pytest.mark.parametrize("origin", _FOREIGN_ORIGINS)
def test_an_upgrade_from_a_foreign_origin_is_refused(server: OutliveServer, origin: str) -> None:
    """From the first day: every Origin that is not of this machine is refused with 403."""
    assert upgrade(server.port, headers={"Origin": origin}).status == 403


@pytest.mark.promise("A.origin")
@pytest.mark.parametrize("path", _PATHS)
def test_every_route_refuses_a_foreign_origin(server: OutliveServer, path: str) -> None:
    """From the first day: on every route, known or not."""
    answer = http_get(server.port, path, headers={"Origin": "http://evil.example"})
    assert answer.status == 403


@pytest.mark.promise("A.host")
@pytest.mark.parametrize("host", _FOREIGN_HOSTS)
def test_an_upgrade_to_a_foreign_host_is_refused(server: OutliveServer, host: str) -> None:
    """From the first day: foreign Host refused with 421 (DNS rebinding)."""
    assert upgrade(server.port, host=host.format(port=server.port)).status == 421


@pytest.mark.promise("A.host")
@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("host", _FOREIGN_HOSTS)
def test_every_route_refuses_a_foreign_host(server: OutliveServer, path: str, host: str) -> None:
    """From the first day: 421 on every route, known or not."""
    assert http_get(server.port, path, host=host.format(port=server.port)).status == 421


@pytest.mark.promise("A.host")
@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_the_servers_own_names_are_welcome(server: OutliveServer, host: str) -> None:
    """From the first day: what is refused is foreign, nothing else."""
    assert upgrade(server.port, host=host.format(port=server.port)).status == 101


@pytest.mark.promise("A.origin")
def test_the_servers_own_origin_is_not_refused(server: OutliveServer) -> None:
    """From the first day: every Origin *except the server's own*; that one has to show a token."""
    assert upgrade(server.port, headers={"Origin": f"http://127.0.0.1:{server.port}"}).status == 401


@pytest.mark.promise("A.origin")
@pytest.mark.parametrize("origin", ["http://127.0.0.1:{port}", "http://box.example:{port}"])
def test_a_program_that_sends_an_origin_by_itself_is_told_to_send_none(
    server: OutliveServer, origin: str
) -> None:
    """websocket-client sends the server's own address."""
    refused = http_get(server.port, "/ws/mcp", headers={"Origin": origin.format(port=server.port)})
    assert "sends no Origin (websocket-client: suppress_origin=True)" in refused.text


@pytest.mark.promise("A.origin", "A.host")
def test_a_refusal_says_why_and_what_to_do(server: OutliveServer) -> None:
    """Every refusal has a message and a hint."""
    answer = http_get(server.port, "/", headers={"Origin": "http://evil.example"})
    assert "origin" in answer.text.split("\r\n\r\n", 1)[1].lower()
    answer = http_get(server.port, "/", host="evil.example")
    assert "127.0.0.1" in answer.text.split("\r\n\r\n", 1)[1]


def _listeners(port: int) -> Iterator[str]:
    """Yield the addresses that listen on `port`, as hexadecimal of /proc/net/tcp{,6} (proc_net_tcp(5))."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                address, number = fields[1].split(":")
                if fields[3] == "0A" and int(number, 16) == port:
                    yield address


@pytest.mark.promise("A.loopback")
def test_nothing_listens_beyond_loopback(server: OutliveServer) -> None:
    """From the first day: loopback only."""
    addresses = set(_listeners(server.port))
    assert addresses
    assert addresses <= {"0100007F", "00000000000000000000000001000000"}


@pytest.mark.promise("A.folder")
def test_the_state_folder_is_private(server: OutliveServer) -> None:
    """From the first day: state folder 0700."""
    found = os.stat(server.state_dir)
    assert stat.S_IMODE(found.st_mode) == 0o700
    assert found.st_uid == os.geteuid()


@pytest.mark.promise("S0.1")
def test_the_ready_line_tells_pid_folder_and_port(server: OutliveServer) -> None:
    """`--print-json`: {pid, state_dir, ports}, pid = the process that was started."""
    assert os.path.samefile(server.ready["state_dir"], server.state_dir)
    assert set(server.ready["ports"]) == {"jsonrpc", "mcp", "rest", "bridge"}
    assert str(server.state_dir) in Path(f"/proc/{server.pid}/cmdline").read_text()


# The interpreter may lie where other users cannot reach it, so the script becomes the other user by itself.
_KNOCK = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
peer.settimeout(1)
try:
    peer.connect(sys.argv[1])
    peer.send(b'J{"req": 1, "op": "status"}')
    print("refused" if peer.recv(65536) == b"" else "answered")
except TimeoutError:
    print("waits")
except OSError:
    print("refused")
"""


def _knock(socket_path: str, *, uid: int) -> str:
    command = [sys.executable, "-I", "-S", "-c", _KNOCK, socket_path, str(uid)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()


@pytest.mark.promise("A.socket")
@pytest.mark.root("only root can act as another user")
@pytest.mark.parametrize("name", ["keeper.sock", "guardian.sock"])
def test_the_keepers_sockets_refuse_other_users(name: str) -> None:
    """A.socket: by the peer's uid, even when file modes would let it in."""
    with tempfile.TemporaryDirectory(
        prefix="outlive-"
    ) as folder:  # pytest's own folders are closed to others
        state_dir = Path(folder) / "state"
        with OutliveServer(state_dir):
            until((state_dir / name).exists, f"{name} (the guardian's comes after the server's ready line)")
            for path, mode in ((folder, 0o755), (state_dir, 0o755), (state_dir / name, 0o777)):
                os.chmod(path, mode)
            if name == "keeper.sock":  # the guardian talks to nobody but the supervisor
                assert _knock(str(state_dir / name), uid=os.geteuid()) == "answered"
            assert _knock(str(state_dir / name), uid=65534) == "refused"
