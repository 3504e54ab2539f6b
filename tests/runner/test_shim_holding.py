"""What a shim holds beside the command's own: for another one's command, or more than it was given at
first.
"""

import os

import pytest

from tests.runner.playing import wait_until
from tests.runner.shims import Shim


def test_it_holds_for_another_ones_command(shim: Shim) -> None:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    shim.supervisor.send(f"hold Loi {shim.folder}", shim.listener.fileno(), reading, writing)
    os.close(reading)
    assert shim.take_over() == ["hold", "oi", "0", "0", "-", "0", "1", "0"]
    os.write(writing, b"kept")
    assert os.read(shim.held["o"], 10) == b"kept"
    os.close(writing)
    shim.supervisor.send("close i")
    assert shim.take_over()[:2] == ["hold", "o"]


def test_it_holds_more_when_it_is_asked_to_and_says_so(shim: Shim) -> None:
    shim.spawn("/bin/cat")
    pid, ticks, _ = shim.spawned()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    shim.supervisor.send("keep rw", reading, writing)
    assert shim.supervisor.words() == ["kept", "rw"]
    os.write(writing, b"held")
    for end_of_pipe in (reading, writing):
        os.close(end_of_pipe)
    assert shim.take_over() == ["own", "ioerw", str(pid), str(ticks), "-", "0", "0", "0"]
    assert os.read(shim.held["r"], 10) == b"held"
    shim.supervisor.send("close i")
    os.close(shim.held.pop("i"))
    assert shim.ended() == ["exited", "0", "1"]


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
@pytest.mark.parametrize("letters", ["o", "rr", "L", "O", "x", "r", "rwm", ""])
def test_what_it_cannot_hold_is_closed_and_nothing_is_said(shim: Shim, letters: str) -> None:
    """What is held already, what comes twice or is no letter of a keeper's end, and too many or too few for
    the letters.
    """
    shim.spawn("/bin/cat")
    shim.spawned()
    before = len(os.listdir(f"/proc/{shim.process.pid}/fd"))
    null = os.open(os.devnull, os.O_RDWR)
    shim.supervisor.send(f"keep {letters}", *[null] * (2 if len(letters) != 2 else len(letters)))
    os.close(null)
    shim.supervisor.send("close i")
    os.close(shim.held.pop("i"))
    assert shim.ended() == ["exited", "0", "1"]
    assert len(os.listdir(f"/proc/{shim.process.pid}/fd")) == before - 1, "the end of stdin"
    assert shim.take_over()[:2] == ["own", "oe"]


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_who_serves_nothing_holds_nothing(shim: Shim) -> None:
    before = len(os.listdir(f"/proc/{shim.process.pid}/fd"))
    null = os.open(os.devnull, os.O_RDWR)
    shim.supervisor.send("keep rw", null, null)
    os.close(null)
    shim.spawn("/bin/true")
    shim.spawned()
    assert shim.ended() == ["exited", "0", "1"]
    shim.release()
    wait_until(lambda: len(os.listdir(f"/proc/{shim.process.pid}/fd")) == before)
