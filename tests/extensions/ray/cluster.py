"""A real Ray cluster on this machine: a control server, and raylets that are nodes of their own.

Everything is ended by pid.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from outlive.client import Client, Process
from tests.extensions.fleet.pairs import a_token, wait_until
from tests.support.run_mark import open_folder_of_run
from tests.support.server import OutliveServer, free_port

_START_S = 90.0
_ADDRESS = "127.0.0.1"
_ARENA_BYTES = 80 * 1024 * 1024  # the smallest store of objects that Ray takes; nothing of ours is in it
_MEMORY_BYTES = 10**9
_TOKEN = "t" * 43
_RAYLET, _CONTROL_SERVER = "raylet/raylet --", "gcs/gcs_server --"

_GROUPS = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
for group in ray.util.placement_group_table().values():
    if group["state"] != "REMOVED":
        print(group["name"])
"""


def skip_or_fail_without_ray() -> None:
    """Skip a test where Ray is not installed; fail where it is required (OUTLIVE_REQUIRE_RAY)."""
    if importlib.util.find_spec("ray") is not None:
        return
    reason = "Ray is not installed (scripts/ray.sh)"
    if os.environ.get("OUTLIVE_REQUIRE_RAY") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


class RayCluster:
    """A control server with one raylet beside it, which takes nothing; other raylets join it by their names.

    Use as a context manager: leaving it ends everything that it has started.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = open_folder_of_run() if folder is None else folder
        self._port = free_port()
        self._started: list[subprocess.Popen[bytes]] = []
        self._sessions: dict[str, int] = {}  # POSIX sessions, by the name of the node
        self._settings = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": _TOKEN,
            "RAY_raylet_start_wait_time_s": str(round(_START_S)),  # 30 s are not enough on a busy machine
            # What the control server knows survives it.
            "RAY_gcs_storage": "rocksdb",
            "RAY_gcs_storage_path": str(self._folder / "gcs"),
        }

    @property
    def address(self) -> str:
        """Of the control server."""
        return f"127.0.0.1:{self._port}"

    def groups(self) -> set[str]:
        """Return the names of the placement groups that there are, as another program of Ray sees them."""
        done = subprocess.run(
            [sys.executable, "-c", _GROUPS, self.address],
            env={**os.environ, **self._settings},
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=True,
        )
        return set(done.stdout.split())

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs that is to talk to it."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN}

    def start_head(self) -> None:
        """Start the control server, again where it was killed."""
        words = [
            "--head",
            "--node-ip-address",
            _ADDRESS,
            "--port",
            str(self._port),
            "--include-dashboard=false",
            "--disable-usage-stats",
        ]
        self._start("head", [*words, "--temp-dir", str(self._folder)], cpus=0, environment={})

    def join(
        self,
        name: str,
        *,
        cpus: int = 2,
        environment: Mapping[str, str] | None = None,
        patience_s: float = _START_S,
        address: str = _ADDRESS,
    ) -> None:
        """Start a raylet that is a node of that name, again where it was killed.

        Without an environment, no server of its own can be started.
        """
        own = {"OUTLIVE_STATE_DIR": "/proc/none"} if environment is None else environment
        words = ["--address", self.address, "--node-ip-address", address]
        self._start(name, words, cpus=cpus, environment=own, patience_s=patience_s)

    def leave(self, name: str) -> None:
        """End all that belongs to a node, its workers included."""
        self._end(name)

    def kill_raylet(self, name: str) -> None:
        """Kill a node's raylet, and only it."""
        self._kill(self._pids(name, _RAYLET))

    def kill_control_server(self) -> Callable[[], None]:
        """Kill the control server, and only it; return what starts it again as it was."""
        name = "control" if "control" in self._sessions else "head"
        (pid,) = self._pids(name, _CONTROL_SERVER)
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        members = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")[:-1]
        self._kill([pid])

        def start_again() -> None:
            with (self._folder / "control.log").open("ab") as output:
                again = subprocess.Popen(
                    words,
                    env=dict(one.split(b"=", 1) for one in members),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            self._started.append(again)
            self._sessions["control"] = again.pid

        return start_again

    def __enter__(self) -> Self:
        """Start the control server."""
        self.start_head()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _place: TracebackType | None
    ) -> None:
        """End everything."""
        for name in list(self._sessions):
            self._end(name)
        for one in self._started:
            one.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(
        self,
        name: str,
        words: Sequence[str],
        *,
        cpus: int,
        environment: Mapping[str, str],
        patience_s: float = _START_S,
    ) -> None:
        self._end(name)
        program = str(Path(sys.executable).with_name("ray"))
        log = self._folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [
                    *(program, "start", *words, "--node-name", name),
                    *("--num-cpus", str(cpus), "--num-gpus", "0", "--memory", str(_MEMORY_BYTES)),
                    *("--object-store-memory", str(_ARENA_BYTES)),
                    # The kernel chooses: Ray's own ranges are those of our servers.
                    *(
                        "--min-worker-port",
                        "0",
                        "--max-worker-port",
                        "0",
                        "--dashboard-agent-listen-port",
                        "0",
                    ),
                ],
                env={**os.environ, **self._settings, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self._sessions[name] = process.pid
            self._started.append(process)
            code = process.wait(patience_s)
        if code != 0:
            raise AssertionError(f"Ray did not start:\n{log.read_text()}")

    def _pids(self, name: str, program: str) -> list[int]:
        """Return the processes of a node, those of one program."""
        return [pid for pid, line in _of_session(self._sessions[name]) if program in line]

    @staticmethod
    def _kill(pids: Sequence[int]) -> None:
        assert pids, "nothing of it runs"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(_is_alive(pid) for pid in pids))

    def _end(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is None:
            return
        while found := _of_session(session):
            for pid, _ in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda found=found: not any(_is_alive(pid) for pid, _ in found))  # type: ignore[misc] # a default binds it


def _stat(pid: int) -> list[str]:
    """Return what proc_pid_stat(5) says behind the name: state, parent, group, session."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    found = _stat(pid)
    return bool(found) and found[0] not in "ZX"


def _of_session(session: int) -> list[tuple[int, str]]:
    """Return the processes of a POSIX session that live, with their command lines."""
    return _living(3, session)


def _children(pid: int) -> list[tuple[int, str]]:
    return _living(1, pid)


def _living(member: int, number: int) -> list[tuple[int, str]]:
    """Return the processes that have a number in a member of `_stat`, with their command lines."""
    found = []
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        stat = _stat(pid)
        if stat and int(stat[member]) == number and stat[0] not in "ZX":
            with contextlib.suppress(OSError):
                words = (
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                found.append((pid, words))
    return found


class RaySite:
    """A server for each node of a cluster, and servers that place commands on them. Leaving it ends all."""

    def __init__(self, cluster: RayCluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self.far = {
            name: OutliveServer(folder / name, args=("--capacity", "cpu=2,gpu=0")) for name in ("n1", "n2")
        }

    def gateway(
        self, name: str, *, token: str = _TOKEN, is_open: bool = True
    ) -> tuple[OutliveServer, Client]:
        """Start a server that places commands, and return it with a client, once both nodes take some if they
        are to.
        """
        server = OutliveServer(
            self._folder / name,
            args=("--placement", "ray", "--ray-address", self.cluster.address),
            env={**self.cluster.environment, "RAY_AUTH_TOKEN": token},
        )
        self._stack.enter_context(server)
        self._stack.callback(self._wait_empty, server)
        client = self._stack.enter_context(Client(server.state_dir, start_server=False))
        for node, far in self.far.items():
            client.fleet.add(node, f"http://127.0.0.1:{far.port}", token=a_token(far, name))
        if is_open:
            self.wait_open(client)
        return server, client

    @staticmethod
    def wait_open(client: Client) -> None:
        """Wait until both nodes take commands."""
        wait_until(lambda: all(_is_open(one) for one in client.nodes()), patience_s=_START_S)

    @staticmethod
    def _wait_empty(server: OutliveServer) -> None:
        """Wait until a server that lives has given back what it has leased: later tests want it."""
        if server.is_running:
            with Client(server.state_dir, start_server=False) as client:
                # A node that was not reached yet has no room, and nothing in it.
                wait_until(lambda: not any(one["room"] and one["room"]["placed"] for one in client.nodes()))

    def __enter__(self) -> Self:
        """Start the nodes' servers."""
        for far in self.far.values():
            self._stack.enter_context(far)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _place: TracebackType | None
    ) -> None:
        """End all."""
        self._stack.close()


def place_of(process: Process) -> str:
    """Return the name of the node on which a process runs; "any" while it waits."""
    location = process.info().location
    return "local" if location is None else location["backend"]


def room_of(client: Client, name: str) -> dict[str, Any]:
    """Return what a server says of a node's room."""
    room: dict[str, Any] = {one["name"]: one["room"] for one in client.nodes()}[name]
    return room


def driver_of(server: OutliveServer) -> int:
    """Return the pid of a server's driver of Ray, once there is one."""
    found: list[int] = []

    def is_found() -> bool:
        found[:] = [pid for pid, words in _children(server.pid) if "outlive.extensions.ray.driver" in words]
        return bool(found)

    wait_until(is_found)
    return found[0]


def _is_open(node: Mapping[str, Any]) -> bool:
    return node["state"] == "connected" and node["room"] is not None and not node["room"]["draining"]
