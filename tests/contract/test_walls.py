"""The walls of a container, seen through a server: what a command inside cannot see, take or change."""

import json
import signal

import pytest

from outlive.client import CommandRefused, InvalidRequest, OutliveError, StartFailed
from tests.contract.places import CONTAINED, Asker
from tests.extensions.docker.tools import PYTHON
from tests.extensions.fleet.pairs import PATIENCE_S, output_of, wait_until

pytestmark = pytest.mark.parametrize("place", CONTAINED, indirect=True, scope="session")


@pytest.mark.promise("S4.12.docker")
def test_too_much_memory_is_named(asker: Asker) -> None:
    """The kernel's KILL is told as `oom`; the next command runs."""
    line = "x = bytearray(1)\nwhile True: x += bytes(1 << 20)"
    process = asker.start([PYTHON, "-I", "-S", "-c", line], isolation="strict", limits={"memory": 64 << 20})
    info = process.wait(PATIENCE_S)
    assert (info.state, info.exit_signal, info.cause) == ("signaled", signal.SIGKILL, "oom")
    assert asker.start("exit 3").wait(PATIENCE_S).exit_code == 3


def test_processes_are_bounded(asker: Asker) -> None:
    """No more than the container may have."""
    line = "for i in $(seq 40); do sleep 30 & done; echo all"
    process = asker.start(["sh", "-c", line], isolation="strict", limits={"processes": 16})
    wait_until(lambda: process.wait(0.1).is_complete or process.info().cursor.stderr > 0)
    process.cancel(0)
    out, err = output_of(process)
    assert b"all" not in out
    assert b"fork" in err.lower()


def test_the_root_is_read_only_and_the_workspace_is_not(asker: Asker) -> None:
    """Temporary folders are the container's own."""
    process = asker.start("touch /x /etc/x /usr/x; touch here /tmp/x && echo written")
    out, err = output_of(process)
    assert err.count(b"Read-only file system") == 3
    assert out == b"written\n"
    assert (asker.place.folder / "here").exists()


def test_there_is_no_network(asker: Asker) -> None:
    """Not even this machine's loopback."""
    line = (
        "import json, os, socket\n"
        "def ask(host, port):\n"
        "    try: socket.create_connection((host, port), 2)\n"
        "    except OSError as error: return type(error).__name__\n"
        "    return 'reached'\n"
        f"print(json.dumps([os.listdir('/sys/class/net'), ask('127.0.0.1', {asker.place.near.port}), "
        "ask('192.0.2.1', 80)]))"
    )
    out = json.loads(output_of(asker.start([PYTHON, "-I", "-S", "-c", line]))[0])
    assert [name for name in out[0] if name.startswith(("eth", "en"))] == []
    assert "reached" not in out[1:]


def test_there_is_no_daemon_and_no_state_folder(asker: Asker) -> None:
    """No socket with a name, not even the runner's, and nothing of the servers."""
    line = "find / -type s -not -path '/proc/*' 2>/dev/null; env; cat /proc/self/mountinfo"
    out = output_of(asker.start(line))[0].decode()
    assert [word for word in out.splitlines() if word.startswith("/")] == []
    assert "docker.sock" not in out
    for server in asker.place.servers:
        seen = asker.start(f"ls {server.state_dir}").wait(PATIENCE_S)
        assert seen.exit_code != 0


def test_a_command_inside_cannot_be_a_supervisor(asker: Asker) -> None:
    """No address of a runner leads anywhere, or it hangs up on whoever comes from inside."""
    line = (
        "import os, socket\n"
        "names = [line.split()[-1] for line in open('/proc/net/unix') if '@' in line or '/' in line]\n"
        "for name in {'/run/outlive/runner.sock', '/run/outlive/hand.sock', '@outlive-runner', *names}:\n"
        "    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "    try:\n"
        "        one.connect(name.replace('@', chr(0), 1))\n"
        "        if heard := one.recv(100): print(name, heard)\n"
        "    except OSError: pass\n"
        "print(b'')"
    )
    assert output_of(asker.start([PYTHON, "-I", "-S", "-c", line])) == (b"b''\n", b"")


def test_a_limit_of_a_container_needs_one_of_its_own(asker: Asker) -> None:
    """In a shared one it would bound others."""
    with pytest.raises((InvalidRequest, CommandRefused)) as caught:
        asker.start("true", limits={"memory": 1 << 26})
    assert "isolation" in caught.value.message + caught.value.hint or "strict" in caught.value.hint


def test_an_image_that_is_missing_is_said(asker: Asker) -> None:
    """Nothing is pulled unless the operator wants it."""
    with pytest.raises(OutliveError) as caught:
        asker.start("true", image="no-such-image:1")
    assert caught.value.code == "image_missing"


def test_an_image_of_a_commands_own_is_what_it_runs_in(asker: Asker) -> None:
    """One without /bin: what lies there is not found, what is mounted runs."""
    image = "outlive-test-bare"
    with pytest.raises(StartFailed) as caught:
        asker.start(["/bin/sh", "-c", "true"], image=image)
    assert caught.value.code == "not_found"
    assert asker.start(["/usr/bin/sh", "-c", "exit 4"], image=image).wait(PATIENCE_S).exit_code == 4


def test_commands_of_a_workspace_share_a_container_and_strict_ones_do_not(asker: Asker) -> None:
    """A file in the container's own /tmp tells."""
    asker.start("echo shared > /tmp/file").wait(PATIENCE_S)
    assert output_of(asker.start("cat /tmp/file"))[0] == b"shared\n"
    process = asker.start("cat /tmp/file", isolation="strict")
    assert process.wait(PATIENCE_S).exit_code == 1
