"""Server and keeper cannot be looked into by other processes of their user.

Their commands can (issue 19, 2).
"""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from outlive.core.command import Profile
from outlive.kernel.files import read_small
from tests.sandbox.houses import a_workspace, offers_of, steps_of
from tests.sandbox.ordinary import SYSTEM_PYTHON, OrdinaryHouse, as_nobody, open_folder
from tests.support.server import OutliveServer, outlive_command

_LOOKING = Path(__file__).with_name("looking.py")
# Root without capabilities, as in the profiles from workspace on. (With all of them the server is closed to
# it already.)
_WITHOUT_CAPABILITIES = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]

pytestmark = pytest.mark.root("it becomes an ordinary user")


def _look_as(words: list[str], *pids: int) -> dict[int, dict[str, str]]:
    with open_folder() as folder:
        script = shutil.copy(_LOOKING, folder)
        asked = [*words, SYSTEM_PYTHON, "-I", "-S", str(script), *map(str, pids)]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {int(pid): tried for pid, tried in json.loads(done.stdout).items()}


def _check(words: list[str], closed: dict[int, str], *, opened: int) -> None:
    found = _look_as(words, *closed, opened)
    # What the administrator may have closed to everybody (Yama) is left out.
    missing = {name for name, how in found.pop(opened).items() if how != "ok"} - {"ptrace", "take"}
    assert not missing, "a command is looked into as ever, or this test shows nothing"
    seen = [(closed[pid], name) for pid, tried in found.items() for name, how in tried.items() if how == "ok"]
    assert not seen
    assert {how for tried in found.values() for how in tried.values()} <= {"EACCES", "EPERM"}


@pytest.mark.promise("A.memory")
def test_no_process_of_its_user_looks_into_the_keeper() -> None:
    words = as_nobody()
    with open_folder() as folder, OrdinaryHouse(folder) as house:
        started = [
            house.start("/bin/cat", stdin="pipe"),
            house.start("/bin/cat", stdin="pipe", confinement=("no_new_privileges",)),
        ]
        command = house.pid(started[0])
        closed = {house.supervisor(): "supervisor", house.guardian(): "guardian"}
        closed |= {house.shim_of(one): f"shim of {one}" for one in started}
        assert len(closed) == 4
        _check(words, closed, opened=command)
        # A successor is closed, too.
        house.kill(house.supervisor(), house.guardian())
        house.wait_redundant()
        _check(words, {house.supervisor(): "supervisor", house.guardian(): "guardian"}, opened=command)


@pytest.mark.promise("A.memory")
@pytest.mark.parametrize("profile", [Profile.WORKSPACE, Profile.SEALED], ids=lambda one: one.value)
def test_no_process_of_its_user_looks_into_the_shim_of_a_sandbox(profile: Profile) -> None:
    """Nor into what makes the sandbox and stays: the first process of a PID namespace is a fork of the
    guardian.
    """
    words = as_nobody()
    with open_folder() as folder, OrdinaryHouse(folder) as house, a_workspace(house) as workspace:
        steps = steps_of(house, offers_of(house), workspace, profile)
        plain = house.start("/bin/cat", stdin="pipe")
        bound = house.start("/bin/cat", stdin="pipe", cwd=str(workspace), confinement=steps)
        command = house.pid(bound)
        closed = {
            house.supervisor(): "supervisor",
            house.guardian(): "guardian",
            house.shim_of(bound): "shim",
        }
        for line in (read_small(f"{house.folder(bound)}/init") or b"").splitlines():
            closed[int(line.split()[0])] = "init"
        assert len(closed) == (4 if profile is Profile.SEALED else 3)
        assert command not in closed
        _check(words, closed, opened=house.pid(plain))


@pytest.mark.thorough
@pytest.mark.promise("A.memory")
def test_no_process_of_its_user_looks_into_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLIVE_TEST_COMMAND", shlex.join([*_WITHOUT_CAPABILITIES, *outlive_command()]))
    with OutliveServer(tmp_path / "state") as server:
        other = subprocess.Popen([*_WITHOUT_CAPABILITIES, "/bin/sleep", "300"])
        try:
            _check(_WITHOUT_CAPABILITIES, {server.pid: "server"}, opened=other.pid)
        finally:
            other.kill()
            other.wait()
