"""Ends: exit codes, signals, and starts that fail for the same reasons under the same names."""

import signal

import pytest

from outlive.client import InvalidState, StartFailed
from tests.contract.places import Asker
from tests.extensions.fleet.pairs import PATIENCE_S, output_of
from tests.keeper.client import new_id


@pytest.mark.promise("S4.12.nodes", "S4.12.docker")
@pytest.mark.parametrize("code", [0, 1, 2, 7, 100, 126, 127, 128, 130, 137, 143, 254, 255])
def test_exit_codes_are_exact(asker: Asker, code: int) -> None:
    """Also those that shells use for signals."""
    info = asker.start(f"exit {code}").wait(PATIENCE_S)
    assert (info.state, info.exit_code, info.exit_signal, info.cause) == ("exited", code, None, None)


@pytest.mark.parametrize(
    "name", ["HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "PIPE", "ALRM", "TERM"]
)
def test_deaths_by_a_signal_are_told_as_such(asker: Asker, name: str) -> None:
    """By its own hand."""
    info = asker.start(["sh", "-c", f"ulimit -c 0; kill -{name} $$; sleep 300"]).wait(PATIENCE_S)
    assert (info.state, info.exit_code) == ("signaled", None)
    assert info.exit_signal == getattr(signal, f"SIG{name}")


def test_signals_are_sent_to_the_main_process(asker: Asker) -> None:
    """By name and by number; one that has ended takes none."""
    process = asker.start("trap 'echo usr; exit 9' USR1; echo ready; while :; do sleep .02; done")
    follow = process.follow()
    next(follow)
    process.signal("USR1")
    assert process.wait(PATIENCE_S).exit_code == 9
    with pytest.raises(InvalidState):
        process.signal(signal.SIGTERM)
    other = asker.start(["sleep", "300"])
    other.signal(signal.SIGUSR2)
    assert other.wait(PATIENCE_S).exit_signal == signal.SIGUSR2


def test_a_program_that_is_not_there_is_not_found(asker: Asker) -> None:
    """The same name of the error everywhere."""
    for words in (["no-such-program-at-all"], ["/no/such/program"], ["./missing"]):
        with pytest.raises(StartFailed) as caught:
            asker.start(words)
        assert caught.value.code == "not_found", words


def test_a_folder_that_is_not_there_is_said(asker: Asker) -> None:
    """Not blamed on the program."""
    with pytest.raises(StartFailed) as caught:
        asker.start("true", cwd=str(asker.place.folder / "missing"))
    assert caught.value.code == "cwd_missing"
    assert str(asker.place.folder / "missing") in caught.value.message
    (asker.place.folder / "plain").write_text("x")
    with pytest.raises(StartFailed) as caught:
        asker.start("true", cwd=str(asker.place.folder / "plain"))
    assert caught.value.code == "cwd_missing"


def test_what_may_not_be_executed_is_said(asker: Asker) -> None:
    """A file without the right, and a folder."""
    (asker.place.folder / "no-right").write_text("#!/bin/sh\n")
    for word in ("./no-right", "/usr"):
        with pytest.raises(StartFailed) as caught:
            asker.start([word])
        assert caught.value.code == "permission_denied", word


def test_a_failed_start_is_remembered_with_its_reason(asker: Asker) -> None:
    """The process is listed as one that never ran."""
    process_id = new_id()
    with pytest.raises(StartFailed):
        asker.start(["no-such-program-at-all"], process_id=process_id)
    with pytest.raises(StartFailed):
        asker.start(["no-such-program-at-all"], process_id=process_id)


def test_a_start_repeated_under_its_name_runs_once(asker: Asker) -> None:
    """Idempotent, also when it has ended."""
    marks = asker.place.folder / "marks"
    marks.unlink(missing_ok=True)
    process_id = new_id()
    process = asker.start(f"echo x >> {marks}; sleep .2; exit 4", process_id=process_id)
    again = asker.start(f"echo x >> {marks}; sleep .2; exit 4", process_id=process_id)
    assert process.wait(PATIENCE_S).exit_code == 4
    third = asker.start(f"echo x >> {marks}; sleep .2; exit 4", process_id=process_id)
    assert {process.process_id, again.process_id, third.process_id} == {process_id}
    assert marks.read_text() == "x\n"


def test_waiting_runs_out_of_time_and_ends_nothing(asker: Asker) -> None:
    """`wait` with a bound."""
    process = asker.start("read x; exit 6", stdin="pipe")
    info = process.wait(0.1)
    assert (info.state, info.is_complete) == ("running", False)
    process.close_stdin()
    assert process.wait(PATIENCE_S).exit_code == 6
    assert output_of(process) == (b"", b"")
