"""Commands in containers that no socket reaches: the transport is forced, or the daemon is at a TCP port."""

import asyncio
import hashlib
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client
from outlive.core.errors import OutliveError
from tests.docker.streams import DaemonPort, StreamHouse, digest_of_numbers, output_of, until
from tests.sandbox.houses import INSIDE_PYTHON
from tests.support.dockerd import Dockerd
from tests.support.processes import is_alive, memory_peak_bytes, wait_dead

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

_SLOW_NUMBERS = (
    "i=1; while [ $i -le 4000 ]; do echo $i; i=$((i+1)); [ $((i % 40)) = 0 ] && sleep 0.02; done; exit 7"
)
_DIGEST = digest_of_numbers(4000)
# Connects to the ferry, and says what a relay says; prints how many bytes it was told.
_KNOCK = """
import os, socket, struct, sys, time
os.chdir(sys.argv[1])
boot = open("/proc/sys/kernel/random/boot_id").read()[:8]
ticks = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
key = f"{boot}.{os.getpid()}.{ticks}".encode()
with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(20)
    for _ in range(400):
        try:
            link.connect("ferry.sock")
            break
        except (ConnectionRefusedError, FileNotFoundError):  # it is being started again
            time.sleep(0.05)
    try:
        link.send(struct.pack("<III", 17 + len(key), 0, 1) + bytes(17) + key)
        print(len(link.recv(100)))
    except (BrokenPipeError, ConnectionResetError):
        print(0)
"""


@pytest.fixture
def house(tmp_path: Path, docker_host: str) -> Iterator[StreamHouse]:
    """A server that reaches its container by a stream."""
    with StreamHouse(tmp_path, docker_host) as made:
        yield made


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_both_streams_and_every_kind_of_end(house: StreamHouse) -> None:
    process = house.start("printf 'a\\000b\\377'; echo err >&2; pwd; exit 7")
    assert output_of(process) == (b"a\0b\xff" + str(house.workspace).encode() + b"\n", b"err\n")
    assert process.wait(10).exit_code == 7
    for code in (0, 1, 127, 255):
        assert house.start(f"exit {code}").wait(10).exit_code == code
    for number in (1, 6, 9, 15):
        assert house.start(f"kill -{number} $$").wait(10).exit_signal == number
    with pytest.raises(OutliveError) as caught:
        house.start(["no-such-program"])
    assert caught.value.code == "not_found"
    assert output_of(house.start(["sh", "-c", "echo $A; cat"], env={"A": "b"})) == (b"b\n", b"")


def test_input_arrives_whole_and_ends(house: StreamHouse) -> None:
    process = house.start("cat; echo over >&2", stdin="pipe")
    sent = random.Random(1).randbytes(3_000_000)
    for begin in range(0, len(sent), 64_000):
        process.write(sent[begin : begin + 64_000])
    process.close_stdin()
    out, err = output_of(process)
    assert (_digest(out), err) == (_digest(sent), b"over\n")


def test_a_terminal_has_a_size_keys_and_a_hangup(house: StreamHouse) -> None:
    process = house.start(
        "stty -echo; read x; stty size; tty; read y; stty size; sleep 100", pty=True, rows=30, cols=90
    )
    process.write(b"\n")
    until(lambda: b"/dev/pts/" in b"".join(item.data for item in process.tail().items))  # type: ignore[union-attr]
    process.resize(40, 100)
    time.sleep(0.3)
    process.write(b"\n")
    until(lambda: b"40 100" in b"".join(item.data for item in process.tail().items))  # type: ignore[union-attr]
    process.write(b"\x03")
    ended = process.wait(10)
    assert ended.exit_signal == 2 or ended.exit_code == 130
    assert b"30 90\r\n/dev/pts/0\r\n40 100\r\n" in output_of(process)[0]


def test_whole_trees_are_paused_resumed_and_cancelled(house: StreamHouse) -> None:
    ticking = "while true; do echo x >>ticks; sleep 0.02; done"
    process = house.start(f"setsid sh -c '{ticking}' & ({ticking}) & wait")
    ticks = house.workspace / "ticks"
    until(lambda: ticks.exists() and ticks.stat().st_size > 20)
    process.pause()
    time.sleep(0.3)
    size = ticks.stat().st_size
    time.sleep(0.3)
    assert ticks.stat().st_size == size
    process.resume()
    until(lambda: ticks.stat().st_size > size)
    process.cancel(0.2)
    ended = process.wait(10)
    assert (ended.cause, ended.descendants) == ("cancel", 0)
    size = ticks.stat().st_size
    time.sleep(0.3)
    assert ticks.stat().st_size == size


def test_a_daemon_of_a_command_is_seen_until_it_ends(house: StreamHouse) -> None:
    process = house.start("(sleep 1; echo late) & echo early; exit 3")
    ended = process.wait(10)
    assert (ended.exit_code, ended.descendants, ended.is_closed) == (3, 1, False)
    assert output_of(process)[0] == b"early\n"
    until(lambda: process.info().is_closed)
    assert process.read().items[-1].data.endswith(b"late\n")  # type: ignore[union-attr]


@pytest.mark.parametrize("victim", ["ferry", "init", "server", "supervisor"])
def test_nothing_is_lost_when_one_of_ours_is_killed(house: StreamHouse, victim: str) -> None:
    process = house.start(_SLOW_NUMBERS)
    waiting = house.start("read x; echo got $x; exit 9", stdin="pipe")
    for _ in range(3):
        time.sleep(0.3)
        if victim == "server":
            house.server.restart()
            house.client.close()
            house.client = Client(state_dir=str(house.state)).__enter__()
        elif victim == "supervisor":
            house.kill(house.server.keeper_status().supervisor_pid or 0)
        else:
            until(lambda: house.pid(victim) > 0 and is_alive(house.pid(victim)))
            house.kill(house.pid(victim))
    process, waiting = (house.client.get(one.process_id) for one in (process, waiting))
    out, err = output_of(process)
    assert (_digest(out), err) == (_DIGEST, b"")
    assert process.wait(20).exit_code == 7
    waiting.write(b"it\n")
    assert output_of(waiting) == (b"got it\n", b"")
    assert waiting.wait(20).exit_code == 9
    until(house.is_linked)
    assert output_of(house.start("echo on"))[0] == b"on\n"


@pytest.mark.promise("A.keeper")
@pytest.mark.parametrize("profile", ["open", "guarded", "workspace", "offline"])
def test_a_command_beside_the_container_is_no_relay(house: StreamHouse, profile: str) -> None:
    """It has our uid, and is served nothing, also where what stands for the container was killed; the relays of before are."""
    living = house.start("cat", stdin="pipe")
    [folder] = house.state.glob("containers/*/run")
    words = [INSIDE_PYTHON, "-I", "-S", "-c", _KNOCK, str(folder)]
    for victim in ("ferry", "init", ""):
        until(house.is_linked)
        knocking = house.client.start(words, cwd=str(house.workspace), backend="local", profile=profile)
        assert output_of(knocking) == (b"0\n", b"")
        living.write(b"x")
        if victim:
            before = house.pid("ferry")
            house.kill(house.pid(victim))
            until(lambda: house.pid("ferry") not in {0, before})  # noqa: B023 -- called here
    # What no keeper has started is no command of ours.
    assert int(subprocess.run(words, check=True, capture_output=True, timeout=60).stdout) > 0
    living.close_stdin()
    assert output_of(living) == (b"xxx", b"")


@pytest.mark.parametrize("is_pty", [False, True])
def test_a_command_that_nobody_reads_can_be_cancelled(house: StreamHouse, is_pty: bool) -> None:
    process = house.start(
        "head -c 50000000 /dev/zero | tr '\\000' x", output_limit=100_000, on_limit="block", pty=is_pty
    )
    until(lambda: process.info().cursor.stdout >= 60_000)
    process.cancel(0.2)
    ended = process.wait(10)
    assert (ended.cause, ended.descendants) == ("cancel", 0)
    until(lambda: process.info().is_closed)


def test_a_killed_stand_in_ends_the_command(house: StreamHouse) -> None:
    process = house.start("while true; do echo x >>ticks; sleep 0.02; done")
    ticks = house.workspace / "ticks"
    until(ticks.exists)
    house.kill(process.pid or 0)
    assert process.wait(10).exit_signal == 9
    until(lambda: process.info().is_closed)
    size = ticks.stat().st_size
    time.sleep(0.3)
    assert ticks.stat().st_size == size


def test_the_daemon_is_killed_in_mid_stream(own_dockerd: Dockerd, tmp_path: Path) -> None:
    with StreamHouse(tmp_path, own_dockerd.host) as house:
        slow, fast = house.start(_SLOW_NUMBERS), house.start("seq 1 3000000; exit 5")
        waiting = house.start("sleep 100")
        for _ in range(2):
            time.sleep(0.4)
            asyncio.run(own_dockerd.kill())
            until(lambda: not house.is_linked())
            own_dockerd.start()
            until(house.is_linked)
        waiting.cancel(0.5)
        out, _ = output_of(slow)
        assert _digest(out) == _DIGEST
        assert _digest(output_of(fast)[0]) == digest_of_numbers(3_000_000)
        assert [one.wait(20).exit_code for one in (slow, fast)] == [7, 5]
        assert waiting.wait(20).cause == "cancel"


def test_a_daemon_at_a_tcp_port_that_is_cut_at_random(tmp_path: Path, docker_host: str) -> None:
    chance = random.Random(5)
    with DaemonPort(docker_host.removeprefix("unix://")) as port:
        mounts = f"{tmp_path}/workspace:{tmp_path}/workspace"
        args = ("--docker-mounts", mounts)
        with StreamHouse(tmp_path, port.host, *args, unix=docker_host, transport="") as house:
            house.start("true").wait(20)
            echo = house.start("cat", stdin="pipe")
            slow, fast = house.start(_SLOW_NUMBERS), house.start("seq 1 2000000; exit 5")
            sent = b""
            for number in range(12):
                time.sleep(chance.uniform(0.02, 0.3))
                port.cut()
                piece = b"%d " % number * 3000
                echo.write(piece)
                sent += piece
            echo.close_stdin()
            assert _digest(output_of(slow)[0]) == _DIGEST
            assert _digest(output_of(fast)[0]) == digest_of_numbers(2_000_000)
            assert output_of(echo)[0] == sent
            assert [one.wait(20).exit_code for one in (slow, fast, echo)] == [7, 5, 0]


def test_a_daemon_elsewhere_does_not_see_our_folders(tmp_path: Path, docker_host: str) -> None:
    with (
        DaemonPort(docker_host.removeprefix("unix://")) as port,
        StreamHouse(tmp_path, port.host, unix=docker_host, transport="") as house,
    ):
        with pytest.raises(OutliveError) as caught:
            house.start("true")
        assert caught.value.code == "mount_failed"
        assert "--docker-mounts" in (caught.value.hint or "")


def test_a_command_whose_container_is_removed_is_told_as_killed(house: StreamHouse) -> None:
    process = house.start("echo begun; sleep 100")
    until(lambda: process.tail().items)
    standing = house.pid("init")
    house.remove_containers()
    assert process.wait(20).exit_signal == 9
    asyncio.run(wait_dead(standing))
    assert output_of(house.start("echo again"))[0] == b"again\n"


def test_fifty_megabytes_that_nobody_reads_stay_where_they_are(house: StreamHouse) -> None:
    process = house.start(
        "head -c 50000000 /dev/zero | tr '\\000' x; exit 4", output_limit=100_000, on_limit="block"
    )
    until(lambda: process.info().is_stalled or process.info().cursor.stdout >= 100_000)
    other = house.start("seq 1 200000; exit 6")
    out = output_of(other)[0]
    assert (len(out), _digest(out)) == (1_288_895, digest_of_numbers(200_000))  # it waits for nobody
    [pid] = [process.pid]
    relays = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert relays
    assert max(memory_peak_bytes(relay) for relay in relays) < 4 << 20
    assert memory_peak_bytes(house.pid("ferry")) < 64 << 20
    got, cursor = 0, None
    with process.follow() as follow:
        for piece in follow:
            assert piece.data.strip(b"x") == b""  # type: ignore[union-attr]
            got += len(piece.data)  # type: ignore[union-attr]
            cursor = piece.cursor
            process.release(cursor)
    assert got == 50_000_000
    assert process.wait(10).exit_code == 4
    assert os.path.exists(f"/proc/{house.pid('init')}")
