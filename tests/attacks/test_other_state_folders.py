"""A sandboxed command of one server reaches no file and no socket of another one of the same user, wherever
that one's state folder lies: in a temporary folder, in the command's own, in one that is opened for it
(decision 226).
"""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.core.command import Profile
from outlive.keeper.sandbox.steps import TEMPORARY
from tests.attacks.attacking import NOBODY, Requests, create_token
from tests.cli.launching import run
from tests.sandbox import opening
from tests.sandbox.ordinary import SYSTEM_PYTHON, open_folder, ordinary_outlive
from tests.support.server import OutliveServer

pytestmark = pytest.mark.walls

_PROFILES = [Profile.WORKSPACE, Profile.OFFLINE, Profile.SEALED]
_USERS = ["ours", pytest.param("an ordinary user", marks=pytest.mark.root("becomes a user"))]
_BUSY = ("registry", "audit", "keeper.log", "server.log")  # these files change by themselves
# Where the other state folder lies, and what the folder above it is called. Of the long paths of its sockets
# the kernel shows another name.
_PLACES = [(one, "b") for one in (*TEMPORARY, "/opt", "workspace", "sandbox-write")]
_PLACES += [("workspace", "b" * 100), ("workspace", "b\nb b"), ("workspace", "a link")]
# Run by a command: moves what is above the folder, connects to its sockets, and writes beside it.
_TRY = """
import json, os, socket, sys
told = json.loads(sys.argv[1])
found = []
def tries(name, call, *words):
    try:
        call(*words)
    except (OSError, IndexError):
        return
    found.append(name)
for path in told["above"]:
    tries("rename " + path, os.rename, path, path + ".moved")
    tries("replace " + path, os.rename, "decoy", path)
for path in told["sockets"]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        tries("connect " + path, socket.socket(socket.AF_UNIX, kind).connect, path)
tries("names", lambda: os.listdir(told["state"])[0])
tries("chmod", os.chmod, told["state"], 0o777)
tries("make", os.mkdir, told["state"] + "/made")
tries("remove", os.rmdir, told["state"])
with open(told["beside"], "w") as file:
    file.write("can write")
print(json.dumps(found))
"""


@contextmanager
def _folder_of(user: str) -> Iterator[Path]:
    """Yield a folder of the user that runs outlive: ours, or, for root, an ordinary one."""
    with open_folder() as folder, pytest.MonkeyPatch.context() as patched:
        if user == "an ordinary user":
            if not (words := ordinary_outlive()):
                pytest.skip("no other user can run outlive here")
            patched.setenv("OUTLIVE_TEST_COMMAND", shlex.join(words))
            os.chown(folder, NOBODY, NOBODY)
        yield folder


@contextmanager
def _made_in(above: Path | str, like: Path) -> Iterator[Path]:
    if not os.access(above, os.W_OK):
        pytest.skip(f"nothing may be made in {above}")
    with tempfile.TemporaryDirectory(dir=above) as made:
        os.chown(made, like.stat().st_uid, like.stat().st_gid)
        yield Path(made)


def _make(folder: Path, like: Path) -> Path:
    folder.mkdir(mode=0o700)
    os.chown(folder, like.stat().st_uid, like.stat().st_gid)
    return folder


def _said(server: OutliveServer, *words: str, cwd: Path, profile: Profile) -> list[object]:
    flags = ("--state-dir", str(server.state_dir), "--profile", profile.value)
    said = run("run", *flags, "--", SYSTEM_PYTHON, "-I", "-S", *words, cwd=cwd)
    if "cannot be had here" in said.stderr:
        pytest.skip(said.stderr)
    assert said.returncode == 0, said.stderr
    found: list[object] = json.loads(said.stdout)
    return found


def _contents(folder: Path) -> dict[str, bytes]:
    files = [one for one in folder.rglob("*") if one.is_file()]
    return {str(one): one.read_bytes() for one in files if not str(one.relative_to(folder)).startswith(_BUSY)}


@pytest.mark.thorough
@pytest.mark.promise("A.folder")
@pytest.mark.parametrize(("place", "name"), _PLACES)
@pytest.mark.parametrize("user", _USERS)
def test_no_file_and_no_socket_of_another_state_folder_is_reached(user: str, place: str, name: str) -> None:
    with _folder_of(user) as folder:
        workspace, opened = _make(folder / "w", folder), _make(folder / "opened", folder)
        shutil.copy(opening.__file__, workspace)
        (workspace / "try.py").write_text(_TRY)
        above = {"workspace": workspace, "sandbox-write": opened}.get(place, Path(place))
        # Our own state folder closes the temporary folder that it lies in, as a whole.
        elsewhere = "/dev/shm" if place != "/dev/shm" else "/var/tmp"
        args = ["--sandbox-write", str(opened)]
        with _made_in(above, folder) as made, _made_in(elsewhere, folder) as home:
            between = called = _make(made / name, folder)
            if name == "a link":
                (called := made / "link").symlink_to(between)
            with OutliveServer(home / "state", args=args) as ours:
                # It has looked around before the other one is there.
                _said(ours, "-c", "print([])", cwd=workspace, profile=Profile.WORKSPACE)
                with OutliveServer(called / "state") as other:
                    _attack(ours, other, workspace, above=[between, made, called], place=place)


def _attack(
    ours: OutliveServer, other: OutliveServer, workspace: Path, *, above: Sequence[Path], place: str
) -> None:
    state = other.state_dir
    theirs = Requests(other, create_token(other))
    theirs.start("sleep 600")
    files = [str(one) for one in state.rglob("*") if not one.is_dir()]
    sockets = [one for one in files if one.endswith((".sock", "/sock"))]
    assert len(sockets) >= 4
    before = _contents(state)
    told = {"files": files, "folders": [str(state), str(state / "processes")], "pids": [other.pid]}
    opened: dict[str, object] = {}
    for profile in _PROFILES:
        is_elsewhere = place == "/opt" or (profile is Profile.SEALED and place in TEMPORARY)
        more = {
            "above": [str(one) for one in (state, *above)],
            "sockets": sockets,
            "state": str(state),
            "beside": "here" if is_elsewhere else str(above[0] / "beside"),
        }
        (workspace / "decoy").mkdir(exist_ok=True)
        found = _said(ours, "opening.py", json.dumps(told), cwd=workspace, profile=profile)
        found += _said(ours, "try.py", json.dumps(more), cwd=workspace, profile=profile)
        if found:
            opened[profile.value] = found
    assert not opened
    assert {name: raw for name, raw in _contents(state).items() if name in before} == before
    assert not list(state.rglob("made"))
    theirs.start("true")  # nothing has happened to it


@pytest.mark.thorough
@pytest.mark.root("mounts")
@pytest.mark.promise("A.folder")
def test_a_second_mount_leads_to_no_state_folder_that_is_hidden_by_its_first_name() -> None:
    """From `sealed` no temporary folder is seen, but any other place is."""
    with (
        open_folder() as folder,
        tempfile.TemporaryDirectory(dir="/opt") as seen,
        OutliveServer(folder / "ours") as ours,
        OutliveServer(_make(folder / "b", folder) / "state") as other,
    ):
        if subprocess.run(["mount", "--bind", other.state_dir.parent, seen], check=False).returncode:
            pytest.skip("nothing may be mounted here")
        try:
            (workspace := folder / "w").mkdir()
            words = ("-c", f"import os, json; print(json.dumps(os.listdir({seen + '/state'!r})))")
            assert _said(ours, *words, cwd=workspace, profile=Profile.SEALED) == []
        finally:
            subprocess.run(["umount", seen], check=True)
