"""Which processes a ferry takes for relays: real processes, a real keeper, no daemon.

Relays of a container that is reached by a stream are in `test_stream.py`.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.backends.docker.ferry import TUNNEL_FILE, Type, encode
from outlive.core.layout import Layout
from outlive.docker_ferry import EndpointCheck
from outlive.keeper.common.kernel import BOOT_ID, start_ticks
from outlive.keeper.common.sockets import listen_unix
from tests.docker.streams import until
from tests.keeper.house import House

_PATIENCE_S = 20.0
_NO_PROXY = 0  # the pid of no process
# Connects, and waits for the end; `apart` first kills its parent, the shim.
_KNOCK = """
import os, signal, socket, sys
if "apart" in sys.argv:
    os.kill(os.getppid(), signal.SIGKILL)
os.chdir(sys.argv[1])
link = socket.socket(socket.AF_UNIX)
link.connect("ferry.sock")
link.recv(1)
"""
# A ferry to whose socket nobody but the relay b.1.2 comes.
_FERRY = """
import asyncio, sys
from outlive.backends.docker.ferry import Tunnel
async def know(link):
    return "b.1.2"
async def carry():
    await Tunnel(sys.argv[1], know).run()
asyncio.run(carry())
"""


class _Place:
    """A socket in a folder, at which one process knocks after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listener = listen_unix(f"{folder}/ferry.sock", socket.SOCK_STREAM)

    def words(self, *more: str) -> tuple[str, ...]:
        """Return a command line that knocks."""
        return (sys.executable, "-I", "-S", "-c", _KNOCK, str(self.folder), *more)

    async def accept(self) -> socket.socket:
        """Return the connection of the next process that knocks."""
        async with asyncio.timeout(_PATIENCE_S):
            return (await asyncio.get_running_loop().sock_accept(self._listener))[0]

    async def key(self, check: EndpointCheck) -> str:
        """Return what the check says of the next process that knocks."""
        with await self.accept() as link:
            async with asyncio.timeout(_PATIENCE_S):
                return await check.key_of(link)

    @contextlib.contextmanager
    def outsider(self) -> Iterator[subprocess.Popen[bytes]]:
        """Have a process knock that no keeper has started."""
        with subprocess.Popen(self.words()) as knocker:
            try:
                yield knocker
            finally:
                knocker.kill()

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


def _key_of(process: subprocess.Popen[bytes]) -> str:
    return f"{BOOT_ID[:8]}.{process.pid}.{start_ticks(process.pid)}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[_Place]:
    """Where they knock."""
    made = _Place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A keeper of the test's own."""
    with House(tmp_path / "state") as made:
        yield made


async def test_what_descends_from_the_stand_is_known_without_a_keeper(place: _Place, tmp_path: Path) -> None:
    check = EndpointCheck(Layout(str(tmp_path / "state")), proxy_pid=os.getppid())
    with place.outsider() as knocker:
        assert await place.key(check) == _key_of(knocker)


async def test_others_wait_for_a_keeper_that_answers(place: _Place, tmp_path: Path) -> None:
    check = EndpointCheck(Layout(str(tmp_path / "state")), proxy_pid=_NO_PROXY)
    with place.outsider() as knocker:
        asking = asyncio.create_task(place.key(check))
        done, _ = await asyncio.wait([asking], timeout=0.5)
        assert not done
        house = await asyncio.to_thread(House, tmp_path / "state")
        await asyncio.to_thread(house.__enter__)
        try:
            assert await asking == _key_of(knocker)
        finally:
            await asyncio.to_thread(house.__exit__, None)


@pytest.mark.promise("A.keeper")
@pytest.mark.parametrize("way", ["as it is", "apart"])
async def test_a_command_is_no_relay(house: House, place: _Place, way: str) -> None:
    """Nor one that has killed its shim; what comes beside it from outside is told apart."""
    check = EndpointCheck(house.layout, proxy_pid=_NO_PROXY)
    await asyncio.to_thread(house.start, *place.words(way))
    assert await place.key(check) == ""
    with place.outsider() as knocker:
        assert await place.key(check) == _key_of(knocker)


async def test_a_process_that_has_ended_is_no_relay(place: _Place, tmp_path: Path) -> None:
    check = EndpointCheck(Layout(str(tmp_path / "state")), proxy_pid=os.getppid())
    with place.outsider() as knocker, await place.accept() as link:
        knocker.kill()
        await asyncio.to_thread(knocker.wait)
        assert await check.key_of(link) == ""


@pytest.mark.parametrize("said", ["own", "other", "nothing"])
def test_a_relay_that_names_another_process_is_hung_up_on(tmp_path: Path, said: str) -> None:
    """It would be given what that one's command writes."""
    (tmp_path / "run").mkdir()
    settings: dict[str, object] = {
        "host": "unix:///nonexistent",
        "cert_folder": None,
        "container": "c",
        "command": [],
    }
    (tmp_path / TUNNEL_FILE).write_text(json.dumps(settings))
    with (
        subprocess.Popen([sys.executable, "-c", _FERRY, str(tmp_path)]) as ferry,
        socket.socket(socket.AF_UNIX) as link,
    ):
        until(lambda: _connects(link, tmp_path / "run" / "ferry.sock"))
        key = {"own": b"b.1.2", "other": b"b.1.3"}.get(said)
        kind = Type.PING if key is None else Type.HELLO
        link.send(encode(kind, 0, bytes(17) + (key or b"")))
        if said == "own":
            link.settimeout(0.5)
            with pytest.raises(TimeoutError):
                link.recv(1)
        else:
            link.settimeout(_PATIENCE_S)
            assert _is_cut(link)
        (tmp_path / TUNNEL_FILE).unlink()
        assert ferry.wait(_PATIENCE_S) == 0


def _connects(link: socket.socket, path: Path) -> bool:
    folder = os.open(path.parent, os.O_PATH)
    try:
        link.connect(f"/proc/self/fd/{folder}/{path.name}")
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def _is_cut(link: socket.socket) -> bool:
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True
