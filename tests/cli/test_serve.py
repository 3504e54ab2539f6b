"""`outlive serve` as a user meets it: ready line, banner, clear refusals, rest, and the end."""

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.cli.launching import environment, launched, run
from tests.support.processes import is_alive, of_state_folder, wait_dead
from tests.support.raw import http_get
from tests.support.rpc import connect
from tests.support.server import OutliveServer, heeded_path, outlive_command

_READY = ("--print-json", "--jsonrpc-port", "0")


@pytest.mark.thorough
@pytest.mark.promise("S0.1")
def test_the_ready_line_is_one_line_of_json_and_nothing_else_is_on_stdout(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    with launched(state_dir, *_READY) as server:
        ready = server.ready()
        assert ready == {"pid": server.process.pid, "state_dir": str(state_dir), "ports": ready["ports"]}
        assert http_get(ready["ports"]["jsonrpc"], "/health").status == 200
        published = json.loads((state_dir / "server.json").read_text())
        assert published["pid"] == ready["pid"]
        assert published["ports"] == ready["ports"]
        assert stat.S_IMODE(os.stat(state_dir / "server.json").st_mode) == 0o600
        code, out, err = server.end(signal.SIGTERM)
        assert (code, out) == (0, "")
        assert "the server has stopped; no process is left" in err
        assert not (state_dir / "server.json").exists()
        assert not (state_dir / "server.sock").exists()


@pytest.mark.thorough
def test_without_a_ready_line_a_banner_says_where_and_what_to_try(tmp_path: Path) -> None:
    """Issue 38, 4: it told people to type JSON-RPC, and named an address that answers 404."""
    ports = ("--jsonrpc-port", "0", "--rest-port", "0", "--bridge-port", "0")
    with launched(tmp_path / "state", *ports, "--verbose") as server:
        banner = server.said("Ctrl-C")
        assert "ws://127.0.0.1:" in banner
        assert re.search(r"VS Code +ws://127\.0\.0\.1:\d+ ", banner)
        for port, path in re.findall(r"http://127\.0\.0\.1:(\d+)(\S*)", banner):
            assert http_get(int(port), path).status == 200, path
        assert str(tmp_path / "state") in banner
        code, out, _ = server.end()
        assert (code, out) == (0, "")


@pytest.mark.thorough
def test_a_banner_without_more_is_five_lines_and_names_no_port_but_the_pages(tmp_path: Path) -> None:
    with launched(tmp_path / "state", "--jsonrpc-port", "0", "--rest-port", "0") as server:
        lines = server.said("Ctrl-C").splitlines()
        assert [line.split()[0] for line in lines] == ["outlive", "The", "Web", "Try:", "Ctrl-C"]
        assert "jsonrpc" not in "".join(lines)
        server.end()


@pytest.mark.thorough
@pytest.mark.promise("S4.10.allowed")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "of this machine may list the MCP tools, no more; --allow-origin lets some act as you"),
        (("--no-hello",), "show a token; --allow-origin lets some act as you"),
        (
            ("--allow-origin", "HTTPS://App.example:443"),
            "of https://app.example act as you; others of this machine may list the MCP tools, no more",
        ),
        (("--mcp-api-key", "k"), "show the key or a token"),
    ],
)
def test_the_banner_says_what_web_pages_may_do(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    with launched(tmp_path / "state", "--jsonrpc-port", "0", *words) as server:
        assert f"  Web pages    {says}   (docs/access.md)\n" in server.said("Ctrl-C")
        server.end()


@pytest.mark.thorough
def test_the_line_to_try_works_as_printed(tmp_path: Path) -> None:
    """Every example is executed."""
    with launched(tmp_path / "state", "--jsonrpc-port", "0") as server:
        line = server.said("Try: ").splitlines()[-1]
        command, *words = line.removeprefix("Try: ").split()
        assert command == "outlive"
        done = subprocess.run(
            [*outlive_command(), *words], capture_output=True, env=environment(), check=False
        )
        assert (done.returncode, done.stdout) == (0, b"hi\n")


@pytest.mark.thorough
def test_a_second_server_on_the_same_folder_is_refused_by_name(tmp_path: Path) -> None:
    with launched(tmp_path / "state", *_READY) as server:
        pid = server.ready()["pid"]
        second = run("serve", "--state-dir", str(tmp_path / "state"), *_READY)
        assert second.returncode == 1
        assert second.stdout == ""
        assert f"pid {pid}" in second.stderr
        assert "--state-dir" in second.stderr


@pytest.mark.thorough
def test_a_killed_server_does_not_keep_the_folder(tmp_path: Path) -> None:
    with launched(tmp_path / "state", *_READY) as first:
        first.ready()
        first.end(signal.SIGKILL)
        assert (tmp_path / "state" / "server.sock").exists()
        with launched(tmp_path / "state", *_READY) as second:
            second.ready()


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_a_taken_port_that_was_asked_for_is_an_error(tmp_path: Path, taken_port: int, by: str) -> None:
    words = ["--jsonrpc-port", str(taken_port)] if by == "flag" else []
    env = {} if by == "flag" else {"OUTLIVE_JSONRPC_PORT": str(taken_port)}
    refused = run("serve", "--state-dir", str(tmp_path / "state"), "--print-json", *words, env=env)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert f"Port {taken_port} on 127.0.0.1 is taken" in refused.stderr
    assert "0 for any free one" in refused.stderr


def test_a_taken_default_port_is_reported_and_skipped(tmp_path: Path) -> None:
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", 8003))
        except OSError:
            pytest.skip("8003 cannot be occupied here")
        other.listen()
        with launched(tmp_path / "state", "--print-json") as server:
            assert server.ready()["ports"] == {}
            _, _, err = server.end()
            assert "Port 8003 on 127.0.0.1 is taken" in err
            assert "--jsonrpc-port" in err


@pytest.mark.thorough
def test_a_port_can_be_off_and_the_unix_socket_still_answers(tmp_path: Path) -> None:
    with launched(tmp_path / "state", "--print-json", "--jsonrpc-port", "off") as server:
        assert server.ready()["ports"] == {}
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(10)
            peer.connect(str(tmp_path / "state" / "server.sock"))
            peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 200 OK" in peer.recv(65536)


def test_a_file_in_place_of_the_state_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    for folder in (tmp_path / "state", tmp_path / "state" / "below"):
        refused = run("serve", "--state-dir", str(folder), *_READY)
        assert refused.returncode == 1
        assert "is not a folder" in refused.stderr
        assert "--state-dir" in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.root("only root can give a folder away")
def test_another_users_state_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", 65534, 65534)
    refused = run("serve", "--state-dir", str(tmp_path / "state"), *_READY)
    assert refused.returncode == 1
    assert "belongs to another user (uid 65534)" in refused.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_state_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o500)
    refused = run("serve", "--state-dir", str(tmp_path / "state"), *_READY)
    assert refused.returncode == 1
    assert "is not writable" in refused.stderr


def test_a_state_folder_that_the_kernel_will_not_let_be_made_is_refused() -> None:
    refused = run("serve", "--state-dir", "/proc/outlive", *_READY)
    assert refused.returncode == 1
    assert "/proc/outlive cannot be used" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.thorough
@pytest.mark.promise("A.folder")
def test_an_open_state_folder_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    with launched(tmp_path / "state", *_READY) as server:
        server.ready()
        assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o700


async def test_a_state_folder_with_a_very_long_path_works(tmp_path: Path) -> None:
    """sun_path holds 107 bytes (unix(7)); the folder's path may be longer."""
    state_dir = tmp_path / ("long" * 20) / ("path" * 20) / "state"
    assert len(str(state_dir)) > 200
    with launched(state_dir, *_READY) as server:
        port = server.ready()["ports"]["jsonrpc"]
        async with connect(f"ws://127.0.0.1:{port}/ws/mcp") as client:
            assert (await client.execute("echo out; exit 3"))["status"] == "started"
        status = run("keeper", "status", "--json", "--state-dir", str(state_dir))
        assert json.loads(status.stdout)["supervisor"]["pid"]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stopping_the_server_leaves_the_processes_and_says_so(
    tmp_path: Path, number: signal.Signals
) -> None:
    with launched(tmp_path / "state", *_READY) as server:
        port = server.ready()["ports"]["jsonrpc"]
        async with connect(f"ws://127.0.0.1:{port}/ws/mcp") as client:
            pids = [
                (await client.execute("sleep 1000", concurrent=True, detach=True))["pid"] for _ in range(3)
            ]
            begun = time.monotonic()
            code, _, err = server.end(number)
            print(f"stopped in {(time.monotonic() - begun) * 1000:.0f} ms")
        assert code == 0
        assert "3 processes live on" in err
        assert "outlive serve" in err
        assert "keeper stop --kill" in err
        assert all(map(is_alive, pids))


@pytest.mark.thorough
async def test_stop_processes_ends_them_too(tmp_path: Path) -> None:
    with launched(tmp_path / "state", *_READY, "--stop-processes", "--grace", "0.2") as server:
        port = server.ready()["ports"]["jsonrpc"]
        async with connect(f"ws://127.0.0.1:{port}/ws/mcp") as client:
            polite = await client.execute("sleep 1000", concurrent=True, detach=True)
            stubborn = "trap '' TERM; while :; do sleep 1; done"
            deaf = await client.execute(stubborn, concurrent=True, detach=True)
        code, _, err = server.end()
        assert code == 0
        assert "no process is left" in err
        assert not is_alive(polite["pid"])
        assert not is_alive(deaf["pid"])


@pytest.mark.thorough
async def test_a_second_signal_forces_the_end(tmp_path: Path) -> None:
    with launched(tmp_path / "state", *_READY, "--stop-processes", "--grace", "60") as server:
        port = server.ready()["ports"]["jsonrpc"]
        async with connect(f"ws://127.0.0.1:{port}/ws/mcp") as client:
            stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
            deaf = await client.execute(stubborn, detach=True)
            await client.output(deaf["process_id"], "ready")  # from here on it is deaf
            server.process.send_signal(signal.SIGINT)
            server.said("once more forces it")
            code, _, err = server.end()
        assert code == 130
        assert "forced" in err
        assert is_alive(deaf["pid"])
    await wait_dead(deaf["pid"])


def test_a_bad_setting_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    refused = run("serve", "--state-dir", str(tmp_path / "state"), env={"MAX_SESSIONS": "many"})
    assert refused.returncode == 1
    assert "MAX_SESSIONS='many'" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.promise("A.loopback")
def test_an_address_beyond_loopback_is_refused(tmp_path: Path) -> None:
    refused = run("serve", "--state-dir", str(tmp_path / "state"), "--host", "0.0.0.0")
    assert refused.returncode == 1
    assert "needs TLS" in refused.stderr
    # A container's owner is told a way in that needs no certificate.
    assert "In a container, share its state folder or the host's network" in refused.stderr
    assert "outlive token create" in refused.stderr


@pytest.mark.thorough
def test_a_misspelt_variable_is_mentioned(tmp_path: Path) -> None:
    with launched(tmp_path / "state", *_READY, env={"OUTLIVE_RECONECT_GRACE": "1"}) as server:
        server.ready()
        assert "did you mean OUTLIVE_RECONNECT_GRACE?" in server.end()[2]


@pytest.mark.thorough
def test_the_keeper_lives_in_a_session_of_its_own(tmp_path: Path) -> None:
    """Hosts kill the process group of a server that is slow to exit: the keeper must not be in it."""
    with launched(tmp_path / "state", *_READY) as server:
        server.ready()
        status = json.loads(run("keeper", "status", "--json", "--state-dir", str(tmp_path / "state")).stdout)
        for part in ("supervisor", "guardian"):
            assert os.getsid(status[part]["pid"]) != os.getsid(server.process.pid)


_HELD_BACK = """
import importlib.abc, os, sys, time

class Holder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "uvloop":
            while not os.path.exists({gate!r}):
                time.sleep(0.01)

sys.meta_path.insert(0, Holder())
"""


@pytest.mark.thorough
def test_listening_comes_before_the_heavy_imports(tmp_path: Path) -> None:
    """A server that cannot load them yet listens all the same.

    The time is printed; `make bench` measures it.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(_HELD_BACK.format(gate=str(gate)))
    begun = time.monotonic()
    words = ("--print-json", "--jsonrpc-port", str(port))
    with (
        launched(tmp_path / "state", *words, env={"PYTHONPATH": heeded_path(tmp_path)}) as server,
        _dial(port) as peer,
    ):
        print(f"listening after {(time.monotonic() - begun) * 1000:.0f} ms")
        gate.touch()
        server.ready()
        peer.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 OK" in peer.recv(65536)  # whoever came early was kept in the backlog


def _dial(port: int) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline


def test_the_server_imports_no_library_for_command_lines_and_no_service_that_is_not_asked_for() -> None:
    """Uvicorn brings click along, which builds a command line of its own at its import; REST and MCP wait for
    a request.
    """
    late = {"click", "mcp", "outlive.frontends.rest.service", "outlive.frontends.mcp.tools.table"}
    code = (
        f"import sys, outlive.cli.main, outlive.cli.server.server_process, outlive.app; print({late} "
        "& set(sys.modules))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    assert seen.stdout.strip() == "set()"


@pytest.mark.promise("S4.9.docker")
@pytest.mark.parametrize(
    ("env", "words", "says"),
    [
        ({"USE_DOCKER": "True"}, (), "OUTLIVE_DOCKER_IMAGE"),
        ({"USE_DOCKER": "maybe"}, (), "USE_DOCKER takes true or false"),
        ({}, ("--backend", "nowhere"), "'nowhere'"),
    ],
)
def test_a_default_place_where_nothing_could_run_is_refused_at_the_start(
    tmp_path: Path, env: dict[str, str], words: tuple[str, ...], says: str
) -> None:
    refused = run("serve", "--state-dir", str(tmp_path / "state"), *_READY, *words, env=env)
    assert refused.returncode != 0
    assert refused.stdout == ""
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr


def _switches(pids: Iterable[int]) -> int:
    """Return how often the threads of these processes were switched to."""
    statuses = [path.read_text() for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(map(int, re.findall(r"ctxt_switches:\t(\d+)", "".join(statuses))))


@pytest.mark.thorough
async def test_an_idle_server_and_its_keeper_hardly_wake(own_server: OutliveServer) -> None:
    """Beside 20 silent commands and a client: some ten switches, where timers without work made 250."""
    async with connect(own_server.url) as client:
        for _ in range(20):
            await client.execute("sleep 1000", concurrent=True, detach=True)
        await asyncio.sleep(3)  # what follows from work is done
        ours = await asyncio.to_thread(of_state_folder, own_server.state_dir)
        before = await asyncio.to_thread(_switches, ours)
        await asyncio.sleep(10)
        assert await asyncio.to_thread(_switches, ours) - before < 60
