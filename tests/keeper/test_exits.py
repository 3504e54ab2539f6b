"""How commands end: every exit code, signals, completion beside background descendants, `after_exit`."""

import sys

import pytest

from outlive.core.identity import ProcessId, id_to_bytes
from outlive.protocols.keeper import Flags, Phase, encode_spec
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.support.processes import Gate, Marker, is_alive


def test_every_exit_code_is_exact(house: House) -> None:
    waiting: dict[ProcessId, int] = {}
    for code in range(256):
        process_id, spec = house.spec(*sh(f"exit {code}"))
        raw = encode_spec(spec)
        house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw))
        waiting[process_id] = code
    for process_id, code in waiting.items():
        bell = house.client.wait_done(process_id)
        assert house.wire_code(process_id) == code
        assert (bell.code, bell.flags & Flags.SIGNALED) in {(code, 0), (0, 0)}  # told, or read from the files
        assert house.client.completions[id_to_bytes(process_id)] == 1


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 13, 14, 15, 24, 31, 34, 64])
def test_a_signal_is_recorded_as_a_signal(house: House, number: int) -> None:
    process_id = house.start(*sh(f"ulimit -c 0; kill -{number} $$; sleep 60"))
    bell = house.client.wait_done(process_id)
    assert house.wire_code(process_id) == -number
    assert (bell.code, bell.flags & Flags.SIGNALED) == (number, Flags.SIGNALED)


def test_completion_is_told_with_the_last_sizes(house: House) -> None:
    process_id = house.start(*sh("head -c 3000000 /dev/zero; head -c 1000 /dev/zero >&2"))
    bell = house.client.wait_done(process_id)
    assert (bell.out, bell.err) == (3_000_000, 1000)
    done = house.done(process_id)
    assert (done["out"], done["err"], done["cause"], done["descendants"]) == (3_000_000, 1000, 0, 0)


@pytest.mark.parametrize("stdio", ["pipes", "merge"])
def test_a_background_grandchild_does_not_delay_completion(
    house: House, gate: Gate, stdio: str, marker: Marker
) -> None:
    line = f"({gate.wait}; echo later; exec {marker.sleep}) & echo now; exit 6"
    process_id = house.start(*sh(line), stdio=stdio)
    bell = house.client.wait_done(process_id)
    assert bell.flags & Flags.OUT_OPEN
    assert bell.descendants >= 1
    assert (house.wire_code(process_id), house.done(process_id)["out"]) == (6, 4)
    assert not (house.folder(process_id) / "closed").exists()

    gate.open()
    assert house.wait_output(process_id, 10) == b"now\nlater\n"
    assert house.done(process_id)["out"] == 4, "completion stays what it was"

    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    house.client.wait_closed(process_id)
    closed = until((house.folder(process_id) / "closed").exists, "the closed mark")
    assert closed
    until(lambda: not marker.pids(), "the descendant's end")
    assert house.client.completions[id_to_bytes(process_id)] == 1


def test_a_descendant_that_is_dead_is_not_left_over(house: House) -> None:
    """`sleep` does not wait for the child that it has inherited: a zombie, until the shim reaps it."""
    started = [house.start(*sh("true & exec sleep 0.2")) for _ in range(20)]
    assert [house.client.wait_done(process_id).descendants for process_id in started] == [0] * 20
    assert [house.done(process_id)["descendants"] for process_id in started] == [0] * 20


def test_completion_stays_what_it_was_when_the_supervisor_dies(own_house: House, gate: Gate) -> None:
    house = own_house
    process_id = house.start(*sh(f"({gate.wait}; echo later) & echo now"))
    house.client.wait_done(process_id)
    mark = house.done(process_id)
    gate.open()
    house.wait_output(process_id, 10)
    second = house.start(*sh("(sleep 60 &) ; echo now"))
    house.client.wait_done(second)
    second_mark = house.done(second)
    house.kill(house.supervisor())
    house.wait_redundant()
    assert house.done(process_id) == mark
    assert house.done(second) == second_mark
    assert house.client.setbacks == []


def test_a_grandchild_that_writes_for_ever_does_not_delay_completion(house: House, marker: Marker) -> None:
    line = f"sh -c 'exec -a {marker.seconds} yes' & echo started"
    process_id = house.start("/bin/bash", "-c", line.replace("sh -c", "bash -c"), output_limit=1 << 20)
    bell = house.client.wait_done(process_id)
    assert bell.flags & Flags.OUT_OPEN
    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    house.client.wait_closed(process_id)


def test_after_exit_kill_ends_the_descendants_before_completion(house: House, marker: Marker) -> None:
    process_id = house.start(*sh(f"setsid {marker.sleep} & {marker.sleep} & exit 3"), after_exit="kill")
    bell = house.client.wait_done(process_id)
    assert marker.pids() == []
    assert (bell.descendants, house.wire_code(process_id)) == (0, 3)


def test_after_exit_wait_waits_for_the_descendants(house: House, gate: Gate) -> None:
    process_id = house.start(*sh(f"({gate.wait}; echo later) & echo now; exit 2"), after_exit="wait")
    house.client.wait_bell(process_id, lambda bell: bell.phase == Phase.EXITED, "the exit")
    gate.open()
    bell = house.client.wait_done(process_id)
    assert (bell.out, bell.descendants, house.out(process_id)) == (10, 0, b"now\nlater\n")


def test_a_command_that_closes_its_streams_goes_on(house: House, gate: Gate) -> None:
    process_id = house.start(*sh(f"echo x; exec >&- 2>&-; {gate.wait}; exit 9"))
    open_flags = Flags.OUT_OPEN | Flags.ERR_OPEN
    # On a full machine it has closed them before its shim could report that it runs.
    house.client.wait_bell(
        process_id,
        lambda bell: bell.out and not bell.flags & open_flags and bell.phase == Phase.RUNNING,
        "closed streams",
    )
    assert is_alive(house.pid(process_id))
    gate.open()
    house.client.wait_done(process_id)
    assert (house.wire_code(process_id), house.out(process_id)) == (9, b"x\n")


def test_the_log_of_stderr_is_made_with_its_first_bytes(house: House) -> None:
    quiet = house.start(*sh("echo out"))
    loud = house.start(*sh("exec 2>/dev/null; echo out"))
    late = house.start(*sh("sleep 0.2; echo late >&2"))
    for process_id in (quiet, loud, late):
        house.client.wait_done(process_id)
    logs = [house.folder(process_id) / "err" for process_id in (quiet, loud, late)]
    assert [log.exists() for log in logs] == [False, False, True]
    assert house.err(late) == b"late\n"


def test_what_is_said_at_the_very_end_on_stderr_alone_is_kept(house: House) -> None:
    started = [house.start(*sh("printf last >&2")) for _ in range(60)]
    for process_id in started:
        house.client.wait_done(process_id)
    assert {house.err(process_id) for process_id in started} == {b"last"}


_TRACED_LATE = """
import ctypes, os, signal, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0
os.kill(os.getpid(), signal.SIGUSR1)
sys.exit(21)
"""


def test_a_command_that_is_traced_by_its_new_parent_has_not_ended(own_house: House, gate: Gate) -> None:
    """PTRACE_TRACEME makes the parent the tracer: the guardian, where the shim is dead."""
    process_id = own_house.start(sys.executable, "-S", "-c", _TRACED_LATE, str(gate.path))
    own_house.kill_shim_of(process_id)
    gate.open()
    own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), own_house.out(process_id)) == (21, b"heard\n")
