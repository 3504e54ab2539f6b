"""From `workspace` on no file of the state folder can be opened, by whatever name and way (issue 19, 1)."""

import json
import os
from pathlib import Path

import pytest

from outlive.core.command import Profile
from tests.sandbox.houses import INSIDE_PYTHON, USERS, a_house, a_workspace, offers_of, steps_of

_CLOSED = (Profile.WORKSPACE, Profile.OFFLINE, Profile.SEALED)


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(one): one.read_bytes()
        for one in folder.rglob("*")
        if one.is_file() and "keeper.log" not in str(one)
    }


@pytest.mark.thorough
@pytest.mark.promise("A.folder")
@pytest.mark.parametrize("user", USERS)
def test_no_file_of_the_state_folder_can_be_opened_from_inside(user: str) -> None:
    """Nor linked, renamed, removed or made; a name may be seen up to `offline`, as docs/sandbox.md says."""
    with a_house(user) as house, a_workspace(house, "opening.py") as workspace:
        victim = house.start("/bin/cat", stdin="pipe")
        held = [house.supervisor(), house.guardian(), house.shim_of(victim), house.pid(victim)]
        offers = offers_of(house)
        names = (
            "live",
            "keeper.log",
            "supervisor.lock",
            "supervisor.pid",
            "guardian.lock",
            "keeper.sock",
            "guardian.sock",
        )
        files = [house.state_dir / name for name in names]
        files += [path for path in house.folder(victim).iterdir() if not path.is_dir()]
        # Files that a server has: there is none here.
        for name in ("tokens.json", "registry.db", "mcp.key", "server.json"):
            (house.state_dir / name).write_text("secret")
            os.chown(house.state_dir / name, *_owner(house.state_dir))
            files.append(house.state_dir / name)
        assert all(path.exists() for path in files)
        asked = [str(path) for path in files]
        told = {
            "files": asked,
            "folders": [str(house.state_dir), str(house.folder(victim)), house.layout.processes],
            "pids": held,
        }
        before = _contents(house.folder(victim))
        words = (INSIDE_PYTHON, "-I", "-S", str(workspace / "opening.py"), json.dumps(told))
        opened: dict[str, object] = {}
        for profile in _CLOSED:
            steps = steps_of(house, offers, workspace, profile)
            code, out, err = house.run(*words, cwd=str(workspace), confinement=steps)
            assert code == 0, (profile, err)
            if found := [way for way in json.loads(out) if not _is_its_own(profile, *way)]:
                opened[profile.value] = found
        assert not opened
        assert _contents(house.folder(victim)) == before
        assert not list(house.state_dir.rglob("made"))
        assert sorted(os.listdir(workspace)) == ["opening.py"]
        # In `open` the same program opens them, or this test shows nothing.
        readable = {**told, "files": asked[:3], "folders": [], "pids": []}
        code, out, err = house.run(*words[:-1], json.dumps(readable), cwd=str(workspace))
        assert code == 0, err
        assert ["read", str(files[0])] in json.loads(out)


def _owner(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid


def _is_its_own(profile: Profile, what: str, way: str) -> bool:
    """Tell whether it made a file in the empty folder that a sealed command has in the place of ours."""
    return profile is Profile.SEALED and what == "make" and "/processes" not in way
