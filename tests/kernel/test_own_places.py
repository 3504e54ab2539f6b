"""Which of outlive's own places lie where a command may write, and how their names are kept."""

import os
from pathlib import Path

import pytest

from outlive.core.mounts import PathIdentity, is_within
from outlive.kernel.own_places import OwnPlace, outermost, own_places, protection_of

_ROOT = "21 1 254:0 / / rw - ext4 /dev/vda rw"


def _mounts(*lines: str) -> PathIdentity:
    return PathIdentity("\n".join((_ROOT, *lines)))


def _at(*paths: str) -> list[OwnPlace]:
    return [OwnPlace(path, path) for path in paths]


def test_a_place_is_protected_and_the_folders_on_the_way_keep_their_names() -> None:
    found = protection_of(
        _at("/srv/p/a/b/venv", "/srv/p/a/b/venv/lib", "/usr/lib/python3"), ["/srv/p", "/srv/q"], _mounts()
    )
    assert found.protected == ("/srv/p/a/b/venv",)
    assert found.pinned == ("/srv/p/a", "/srv/p/a/b")
    assert not found.obstacle


def test_a_workspace_below_another_writable_folder_keeps_its_name_too() -> None:
    found = protection_of(_at("/tmp/p/venv"), ["/tmp/p", "/tmp"], _mounts())
    assert (found.protected, found.pinned) == (("/tmp/p/venv",), ("/tmp/p",))


@pytest.mark.parametrize(
    ("own", "writable"),
    [
        ("/srv/p", ["/srv/p"]),
        ("/srv/p", ["/srv/p/lib"]),
        ("/tmp/venv", ["/tmp/venv/w", "/tmp"]),
        ("/srv/p/venv", ["/srv/p/venv/share", "/srv/p"]),
    ],
)
def test_a_writable_folder_that_is_outlives_own_is_an_obstacle(own: str, writable: list[str]) -> None:
    assert "outlive's own" in protection_of(_at(own), writable, _mounts()).obstacle


def test_a_place_that_is_mounted_a_second_time_is_found() -> None:
    mounts = _mounts(
        "22 21 254:0 /srv/p /mnt/project rw - ext4 /dev/vda rw",
        "23 21 254:0 /srv/p/venv/lib /srv/q/borrowed rw - ext4 /dev/vda rw",
        "24 21 0:31 /venv /srv/q/other rw - tmpfs tmpfs rw",
    )
    found = protection_of(_at("/srv/p/venv"), ["/mnt/project", "/srv/q"], mounts)
    assert found.protected == ("/mnt/project/venv", "/srv/q/borrowed")


def test_links_on_the_way_and_the_folder_of_a_missing_file_count(tmp_path: Path) -> None:
    (tmp_path / "real" / "venv").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/../real")
    (tmp_path / "round").symlink_to("round")
    names = own_places([f"{tmp_path}/link/venv", f"{tmp_path}/settings/deep/file", f"{tmp_path}/round/x"])
    assert OwnPlace(f"{tmp_path}/link", f"{tmp_path}/link") in names
    assert OwnPlace(f"{tmp_path}/real/venv", f"{tmp_path}/real/venv") in names
    assert OwnPlace(f"{tmp_path}/settings/deep/file", str(tmp_path)) in names
    found = protection_of(names, [str(tmp_path)], _mounts())
    assert found.protected == tuple(
        f"{tmp_path}/{name}" for name in ("link", "real/venv", "round", "settings/deep")
    )
    assert os.listdir(tmp_path / "settings" / "deep") == []
    assert not any(is_within(path, held) for path in found.pinned for held in found.protected)


def test_a_missing_file_elsewhere_closes_nothing(tmp_path: Path) -> None:
    """A home without settings has projects in it."""
    names = own_places([f"{tmp_path}/.config/outlive/config.toml"])
    found = protection_of(names, [f"{tmp_path}/project"], _mounts())
    assert (found.protected, found.pinned, found.obstacle) == ((), (), "")
    assert os.listdir(tmp_path) == []


def test_the_outermost_of_some_folders() -> None:
    assert outermost(["/a/b", "/a", "/ab", "/a"]) == ("/a", "/ab")
