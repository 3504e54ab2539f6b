"""A state folder whose files are damaged: the server starts all the same, with what is whole."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.client import Client
from tests.support.server import OutliveServer

# Without these the server does not start, and says so: they are on the disk before anything depends on them.
_RULES = {"identity", "tokens.json", "operator.json"}


def _instead(make: Callable[[Path], object]) -> Callable[[Path, bytes], object]:
    def damage(path: Path, _whole: bytes) -> None:
        path.unlink()
        make(path)

    return damage


def _foreign(path: Path) -> Path:
    """Return a file beside the state folder that is none of outlive's."""
    return next(one for one in path.parents if one.name == "state").with_name("foreign")


_DAMAGES: dict[str, Callable[[Path, bytes], object]] = {
    "emptied": lambda path, _: path.write_bytes(b""),
    "zeroed": lambda path, whole: path.write_bytes(bytes(len(whole))),
    "cut": lambda path, whole: path.write_bytes(whole[: len(whole) // 2]),
    "a bit": lambda path, whole: path.write_bytes(bytes([whole[0] ^ 64]) + whole[1:] if whole else b"\1"),
    "deep": lambda path, _: path.write_bytes(b"[" * 50_000),
    "a folder": _instead(lambda path: (path / "within").mkdir(parents=True)),
    "a pipe": _instead(os.mkfifo),
    "a link": _instead(lambda path: path.symlink_to(_foreign(path))),
}


def _files(state_dir: Path) -> list[Path]:
    """Return the files that a server reads at its start, but for locks, logs, processes' folders
    and the native program, which is executed only with the content that is expected.
    """
    aside = {"processes", "programs", "prepared", "reserve", "notes"}
    found = [
        path
        for path in sorted(state_dir.rglob("*"))
        if path.relative_to(state_dir).parts[0] not in aside and path.is_file() and not path.is_symlink()
    ]
    others = (".lock", ".log", ".pid")
    return [one for one in found if one.name not in _RULES and not one.name.endswith(others)]


@pytest.mark.thorough
@pytest.mark.parametrize("how", _DAMAGES)
def test_a_server_starts_whichever_of_its_files_are_damaged(tmp_path: Path, how: str) -> None:
    folder, state_dir = tmp_path / "p", tmp_path / "state"
    folder.mkdir()
    _foreign(state_dir / "x").write_text("somebody else's\n")
    with OutliveServer(state_dir) as server:
        with Client(state_dir, start_server=False) as client:
            client.services.up(str(folder), {"stays": {"command": "exec sleep 600"}})
            living = client.start("sleep 600", group="g", group_limit=1)
            client.start("exit 4", group="g")  # waits for its turn
            ended = client.start("exit 3")
            ended.wait()
            ended.relabel(tags={"a": "b"})
        server.kill()
        damaged = _files(state_dir)
        for path in damaged:
            _DAMAGES[how](path, path.read_bytes())
        server.start()
        with Client(state_dir, start_server=False) as client:
            states = {one.process_id: one.state for one in client.list()}
            assert states[living.process_id] == "running"
            assert states[ended.process_id] == "exited"
            new = client.start("echo on; exit 9")
            assert new.wait().exit_code == 9
    assert _foreign(state_dir / "x").read_text() == "somebody else's\n"
    assert {one.name for one in damaged} >= {"registry.db", "live", "retention-clock", "server.json"}
