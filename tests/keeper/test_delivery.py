"""What a foreground needs of the keeper, across its deaths: lent inputs, closed outputs, readers who are
gone.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator

import pytest

from outlive.protocols.keeper import Flags, Phase
from tests.keeper.client import KeeperClient, KeeperRefused, new_id
from tests.keeper.house import House, sh

_MB = 1 << 20


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe's reading and writing end."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def _has_reader(writing: int) -> bool:
    poll = select.poll()
    poll.register(writing, 0)
    return not poll.poll(0)


def test_a_lent_input_is_the_commands_alone_and_outlives_every_keeper(
    own_house: House, pipe: tuple[int, int]
) -> None:
    reading, writing = pipe
    process_id = new_id()
    with KeeperClient(own_house.state_dir, ensure=own_house.ensure, role="cli") as lender:
        lender.ask("lend", id=process_id, fds=[reading])
        os.close(reading)
        own_house.start(*sh("echo ready; cat"), process_id=process_id, stdin="lent")
    own_house.wait_output(process_id, 6)
    os.write(writing, b"before ")
    own_house.kill(own_house.supervisor(), own_house.guardian())
    os.write(writing, b"behind\n")
    os.close(writing)
    own_house.client.wait_done(process_id)
    assert own_house.out(process_id) == b"ready\nbefore behind\n"
    assert own_house.wire_code(process_id) == 0


def test_a_terminal_and_a_lent_input_go_together(house: House, pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    process_id = new_id()
    line = "test -t 1 && test -t 2 && ! test -t 0 && read line && echo $line > /dev/tty"
    with KeeperClient(house.state_dir, ensure=house.ensure, role="cli") as lender:
        lender.ask("lend", id=process_id, fds=[reading])
        house.start(*sh(line), process_id=process_id, stdin="lent", stdio="pty")
    os.write(writing, b"word\n")
    house.client.wait_done(process_id)
    assert (house.wire_code(process_id), house.out(process_id)) == (0, b"word\r\n")


def test_what_was_lent_by_somebody_who_left_is_let_go_of(own_house: House, pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    process_id = new_id()
    with KeeperClient(own_house.state_dir, ensure=own_house.ensure, role="cli") as lender:
        lender.ask("lend", id=process_id, fds=[reading])
        os.close(reading)
        assert _has_reader(writing)
    own_house.status()  # answered behind the end of that connection, or at most one turn before it
    own_house.status()
    assert not _has_reader(writing)
    refused, _ = own_house.spec("/bin/cat", process_id=process_id, stdin="lent")
    with pytest.raises(KeeperRefused) as raised:
        own_house.start("/bin/cat", process_id=refused, stdin="lent")
    assert raised.value.slug == "stdin_lost"
    assert not own_house.folder(process_id).exists()


def test_a_closed_output_stays_closed_when_the_supervisor_dies(own_house: House) -> None:
    line = "echo begun >&2; read go < fifo; yes; echo $? >&2"
    os.mkfifo(own_house.state_dir / "fifo")
    process_id = own_house.start(*sh(line), cwd=str(own_house.state_dir))
    own_house.client.wait_bell(process_id, lambda bell: bell.err == 6, "its first line")
    own_house.client.ask("close_output", id=process_id, stream=0)
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    (own_house.state_dir / "fifo").write_text("go\n")
    own_house.client.wait_done(process_id)
    assert own_house.err(process_id) == b"begun\n%d\n" % (128 + signal.SIGPIPE)
    assert own_house.out(process_id) == b""


def test_a_terminal_has_no_pipe_to_close(house: House) -> None:
    process_id = house.start(*sh("read line"), stdio="pty")
    with pytest.raises(KeeperRefused) as raised:
        house.client.ask("close_output", id=process_id, stream=0)
    assert raised.value.slug == "invalid_params"
    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    house.client.wait_done(process_id)


def test_without_a_reader_it_goes_on_also_under_the_next_supervisor(own_house: House) -> None:
    line = f"head -c {6 * _MB} /dev/zero; read go < fifo; head -c {6 * _MB} /dev/zero"
    os.mkfifo(own_house.state_dir / "fifo")
    process_id = own_house.start(
        *sh(line), output_limit=2 * _MB, on_limit="block", cwd=str(own_house.state_dir)
    )
    own_house.client.wait_bell(process_id, lambda bell: bell.flags & Flags.BLOCKED, "a full log")
    own_house.client.ask("unbound", id=process_id, output_limit=8 * _MB)
    own_house.client.wait_bell(process_id, lambda bell: bell.out == 6 * _MB, "the first half")
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    (own_house.state_dir / "fifo").write_text("go\n")
    bell = own_house.client.wait_done(process_id)
    assert (bell.out, own_house.wire_code(process_id)) == (12 * _MB, 0)
    assert bell.flags & Flags.GAPS  # beyond the new limit the middle goes, as always


def test_what_is_blocked_and_has_ended_keeps_everything_and_is_let_go_of(house: House) -> None:
    process_id = house.start(
        *sh(f"head -c {2 * _MB + 40_000} /dev/zero"), output_limit=2 * _MB, on_limit="block"
    )
    bell = house.client.wait_closed(process_id)
    assert (bell.phase, bell.out) == (Phase.DONE, 2 * _MB + 40_000)
    assert not bell.flags & Flags.GAPS


def test_output_of_others_is_not_released(house: House) -> None:
    process_id = house.start(*sh("head -c 100000 /dev/zero; read line"), stdin="pipe")
    house.wait_output(process_id, 100_000)
    house.client.ask("release", id=process_id, out=100_000, err=0)
    house.client.ask("unbound", id=process_id, output_limit=1)
    house.client.ask("close_stdin", id=process_id)
    bell = house.client.wait_done(process_id)
    assert not bell.flags & Flags.GAPS
