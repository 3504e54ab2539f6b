"""`outlive keeper stop --kill` with many commands, with trees that resist, interrupted and repeated."""

import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from outlive.cli.server.keeper import stop_keeper
from outlive.core.errors import InvalidState
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.sandbox.ordinary import OrdinaryHouse, open_folder
from tests.support.processes import Marker, end, is_alive, of_state_folder
from tests.support.server import START_PATIENCE_S, outlive_command, run_outlive

_LONG_S = 180.0
_DEAF = "trap '' TERM HUP INT; while :; do SLEEP & SLEEP; done"


def _stop(state_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_outlive("keeper", "stop", "--kill", *words, state_dir=state_dir)


def _begin(house: House) -> "subprocess.Popen[str]":
    words = [*outlive_command(), "keeper", "stop", "--kill", "--state-dir", str(house.state_dir)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _crowd(house: House, line: str, count: int) -> list[str]:
    """Start a line many times and let go of the keeper, as a server would that was stopped."""
    ids = [str(house.start(*sh(line))) for _ in range(count)]
    house.client.close()
    return ids


def _became_root(house: House, process_id: str) -> int:
    """Return the pid of a command once `become` has executed what it runs as root."""
    pid = house.pid(process_id)
    until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00600\x00", "the command to be root")
    return pid


def _is_begun(house: House, ids: list[str]) -> bool:
    return any((house.folder(one) / "stop").exists() for one in ids)


def test_a_supervisor_that_dies_at_it_is_followed_by_one_that_ends_the_rest(
    tmp_path: Path, marker: Marker
) -> None:
    """310 of 2,379 commands lived on, and the verb had given up: now it asks the next supervisor."""
    token = tmp_path / "token"
    with House(tmp_path / "state", env={"OUTLIVE_FAILPOINT": f"stop.recorded@{token}"}) as house:
        _crowd(house, _DEAF.replace("SLEEP", marker.sleep), 20)
        token.touch()
        answer = _stop(house.state_dir)
        assert (answer.returncode, answer.stderr) == (0, "The keeper has ended.\n")
        assert not token.exists()
        assert not marker.pids()
        assert not of_state_folder(house.state_dir)


def test_a_stop_that_is_killed_is_repeated(own_house: House, marker: Marker, tmp_path: Path) -> None:
    """The trees resist: deaf to TERM, and a chain in which each process starts the next one and ends."""
    hop = tmp_path / "hop.sh"
    hop.write_text("echo x >> $0.alive\nsetsid sh $0 &\n")
    chain = str(own_house.start(*sh(f"setsid sh {hop} & sleep 600")))
    until((tmp_path / "hop.sh.alive").exists, "the chain to run")
    ids = _crowd(own_house, _DEAF.replace("SLEEP", marker.sleep), 12)
    verb = _begin(own_house)
    until(lambda: _is_begun(own_house, [chain, *ids]), "the first stop")
    verb.kill()
    verb.communicate(timeout=START_PATIENCE_S)
    again = _stop(own_house.state_dir)
    assert again.returncode == 0, again.stderr
    assert not marker.pids()
    assert not of_state_folder(own_house.state_dir)
    assert _stop(own_house.state_dir).stderr == "No keeper runs.\n"


@pytest.mark.thorough
@pytest.mark.root("only root can be another user")
def test_what_cannot_be_ended_is_counted_and_named_and_may_be_asked_for_again() -> None:
    """A command of an ordinary user that has become root (sudo) is not the keeper's to kill."""
    with open_folder() as folder, OrdinaryHouse(folder) as house:
        become = Path(shutil.copy(shutil.which("setpriv") or "", folder / "become"))
        become.chmod(0o755 | stat.S_ISUID)
        plain = house.start("/bin/sleep", "600")
        rooted = house.start(str(become), "--reuid", "0", "--regid", "0", "--clear-groups", "sleep", "600")
        pid = _became_root(house, rooted)
        house.client.close()
        try:
            with pytest.raises(InvalidState) as caught:
                stop_keeper(house.layout, kill=True, stuck_s=0.5)
            assert caught.value.code == "process_running"
            assert caught.value.details == {"processes": 1, "ids": [rooted]}
            assert rooted in caught.value.message
            assert not is_alive(house.pid(plain))
            assert is_alive(pid)
        finally:
            end(pid)
        assert stop_keeper(house.layout, kill=True)


@pytest.mark.thorough
@pytest.mark.root("only root can be another user")
def test_the_verb_ends_with_1_and_the_ids_where_something_is_left() -> None:
    """As above, by the command line."""
    with open_folder() as folder, OrdinaryHouse(folder) as house:
        become = Path(shutil.copy(shutil.which("setpriv") or "", folder / "become"))
        become.chmod(0o755 | stat.S_ISUID)
        rooted = house.start(str(become), "--reuid", "0", "--regid", "0", "--clear-groups", "sleep", "600")
        pid = _became_root(house, rooted)
        house.client.close()
        answer = subprocess.run(
            [*outlive_command(), "keeper", "stop", "--kill", "--json", "--state-dir", str(house.state_dir)],
            capture_output=True,
            text=True,
            timeout=_LONG_S,
            check=False,
        )
        end(pid)
        assert answer.returncode == 1
        assert json.loads(answer.stdout) == {
            "stopped": False,
            "servers": [],
            "processes": 1,
            "ids": [rooted],
        }
        assert f"One process lives on although killed: {rooted}." in answer.stderr
        assert stop_keeper(house.layout, kill=True)


@pytest.mark.slow
@pytest.mark.alone
def test_twelve_hundred_trees_are_ended_while_the_supervisor_answers(
    own_house: House, marker: Marker
) -> None:
    """1,200 trees of three processes each, beside eight that compute."""
    line = "trap '' TERM; SLEEP & SLEEP & wait; wait; SLEEP".replace("SLEEP", marker.sleep)
    _crowd(own_house, line, 1200)
    supervisor = own_house.supervisor()
    own_house.client.close()
    computing = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(8)]
    try:
        verb = _begin(own_house)
        said = verb.communicate(timeout=_LONG_S)
    finally:
        for one in computing:
            one.kill()
            one.wait()
    assert (verb.returncode, said) == (0, ("", "The keeper has ended.\n"))
    assert not marker.pids()
    assert not of_state_folder(own_house.state_dir)
    assert f"supervisor {supervisor} does not answer" not in own_house.log()
