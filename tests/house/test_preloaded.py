"""A server that is a fork of a loaded process (`tests.support.preloaded`) has what an executed one has."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.server import OutliveServer

_SIGNALS = ("SigBlk", "SigIgn", "SigCgt")


def _looks(server: OutliveServer) -> dict[str, object]:
    """Return what the kernel says of a server's process, and whether the server answers."""
    proc = Path(f"/proc/{server.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    words = (proc / "cmdline").read_text().rstrip("\0").split("\0")
    return {
        "words": [word for word in words if not word.isdigit() and str(server.state_dir) != word],
        "name": (proc / "comm").read_text(),
        "folder": os.readlink(proc / "cwd"),
        "umask": status["Umask"],
        "signals": [status[name] for name in _SIGNALS],
        "group": os.getpgid(server.pid),
        "session": os.getsid(server.pid),
        "files": sorted(name for name in os.listdir(proc / "fd") if int(name) < 3),
        "doors": sorted(server.ready["ports"]),
    }


@pytest.mark.root("a server's memory and descriptors are closed to its user")
@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_forked_server_is_given_what_an_executed_one_is(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "folder").mkdir()
    found = []
    for name in ("forked", "executed"):
        server = OutliveServer(
            tmp_path / name,
            args=["--mcp-tools", "lean"],
            env={"MAX_SESSIONS": "7"},
            cwd=tmp_path / "folder",
            umask=0o027,
            is_executed=name == "executed",
        )
        with server:
            looks = _looks(server)
            code = server.stop(number)
            assert not server.is_running
            server.start()
        found.append((looks, code))
    assert found[0] == found[1]
