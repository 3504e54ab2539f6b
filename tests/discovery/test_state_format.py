"""A state folder of another format: every way to it refuses in one sentence, and changes nothing there."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive import FORMAT, __version__
from outlive.client import AsyncClient, Client, OutliveError
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import Layout
from outlive.discovery.keeper import ensure_keeper
from outlive.keeper.common.spawn import keeper_argv
from outlive.kernel.folder_identity import check_format, claim_folder
from tests.keeper.house import House, sh
from tests.sandbox.ordinary import NOBODY, open_folder, ordinary_outlive
from tests.support.server import run_outlive

_PORTS = ("--jsonrpc-port", "0", "--mcp-port", "off", "--rest-port", "off", "--bridge-port", "off")
_VERBS = {
    "serve": ("serve", *_PORTS),
    "run": ("run", "-c", "true"),
    "ps": ("ps",),
    "logs": ("logs", "p1"),
    "mcp": ("mcp",),
    "attach": ("attach", "p1"),
    "doctor": ("doctor",),
    "audit": ("audit", "verify"),
    "token": ("token", "create"),
    "containers": ("containers", "ls"),
    "backup": ("backup", "/dev/null"),
    "restore": ("restore", "/dev/null"),
    "restore in its place": ("restore", "/dev/null", "--replace"),
    "keeper run": ("keeper", "run"),
    "keeper status": ("keeper", "status"),
    "keeper stop": ("keeper", "stop"),
    "keeper upgrade": ("keeper", "upgrade"),
}
_FORMATS = {
    "another number": (
        "identity",
        f"{FORMAT + 1} 9.8.7 what this one cannot know\n",
        "of format 2, made by outlive 9.8.7",
    ),
    "no number": ("tokens.json", "{}", "does not say of which format"),
}


def _folder(parent: Path, which: str) -> tuple[Path, str]:
    """Make a folder that this version cannot use; return it, and what is said of it."""
    name, content, said = _FORMATS[which]
    folder = parent / "state"
    folder.mkdir(0o755)
    (folder / name).write_text(content)
    (folder / "more").write_text("of another version")
    return folder, said


def _all_of(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return all that a program could change: modes, times and contents, of the folder, too."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        about = path.lstat()
        found[str(path)] = (about.st_mode, about.st_mtime_ns, "" if path.is_dir() else path.read_text())
    return found


@pytest.mark.parametrize(
    ("verb", "which"),
    [
        *((verb, "another number") for verb in _VERBS),
        *((verb, "no number") for verb in ("serve", "run", "restore")),
    ],
)
def test_every_verb_refuses_it_and_changes_nothing(tmp_path: Path, verb: str, which: str) -> None:
    folder, said = _folder(tmp_path, which)
    before = _all_of(folder)
    refused = run_outlive(*_VERBS[verb], state_dir=folder)
    assert refused.returncode != 0
    assert said in refused.stderr
    assert f"outlive {__version__} uses format {FORMAT}" in refused.stderr
    assert f"`mv {folder} {folder}.old`" in refused.stderr
    assert "OUTLIVE_STATE_DIR" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert _all_of(folder) == before


@pytest.mark.skipif(not ordinary_outlive(), reason="needs an ordinary user who can run outlive")
@pytest.mark.parametrize("verb", ["serve", "run", "mcp", "restore"])
def test_an_ordinary_user_is_told_the_same(verb: str) -> None:
    with open_folder() as parent:
        folder, said = _folder(parent, "another number")
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        before = _all_of(folder)
        words = [*ordinary_outlive(), *_VERBS[verb], "--state-dir", str(folder)]
        refused = subprocess.run(
            words,
            env={**os.environ, "HOME": str(parent)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert refused.returncode != 0
        assert said in refused.stderr
        assert _all_of(folder) == before


@pytest.mark.parametrize("which", _FORMATS)
def test_clients_and_the_keeper_refuse_it_by_a_slug(tmp_path: Path, which: str) -> None:
    folder, said = _folder(tmp_path, which)
    before = _all_of(folder)
    with pytest.raises(OutliveError, match=said) as refused, Client(folder) as client:
        client.list()
    assert refused.value.code == "state_format"

    async def ask() -> None:
        async with AsyncClient(folder) as client:
            await client.list()

    with pytest.raises(OutliveError, match=said) as refused:
        asyncio.run(ask())
    assert refused.value.code == "state_format"
    with pytest.raises(ConfigInvalid, match=said):
        ensure_keeper(str(folder))
    for role in ("guardian", "supervisor"):
        ended = subprocess.run(
            keeper_argv(role, str(folder)), capture_output=True, text=True, check=False, timeout=60
        )
        assert ended.returncode == 1
        assert said in ended.stderr
    assert _all_of(folder) == before


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A keeper of a folder that does not exist yet."""
    with House(tmp_path / "fresh") as one:
        yield one


@pytest.mark.parametrize("left", ["lost+found", ".snapshot", "identity.new", "identity"])
def test_an_empty_folder_gets_our_number(tmp_path: Path, left: str) -> None:
    """Also a file system's root, and what a power cut has left of the very first write."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    if left.startswith("identity"):
        (folder / left).touch()
    else:
        (folder / left).mkdir()
    claim_folder(Layout(str(folder)))
    assert (folder / "identity").read_text().startswith(f"{FORMAT} {__version__} ")


@pytest.mark.parametrize("content", [f"{FORMAT}\n", f"{FORMAT} 0 a b c d\n", "\0\xff", "nonsense"])
def test_a_file_that_makes_no_sense_is_no_number(tmp_path: Path, content: str) -> None:
    (tmp_path / "identity").write_text(content)
    for ask in (check_format, claim_folder):
        with pytest.raises(ConfigInvalid, match="does not say of which format"):
            ask(Layout(str(tmp_path)))


def test_a_folder_that_is_begun_while_it_is_looked_at_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks between another one's number and its next file sees both, and refuses nothing."""
    layout, listed = Layout(str(tmp_path)), os.listdir

    def begun_meanwhile(path: str) -> list[str]:
        monkeypatch.undo()
        claim_folder(layout)
        (tmp_path / "keeper.log").touch()
        return listed(path)

    monkeypatch.setattr(os, "listdir", begun_meanwhile)
    check_format(layout)


@pytest.mark.parametrize("point", ["identity.prepared", "identity.written"])
def test_a_kill_before_or_behind_the_number_leaves_a_usable_folder(tmp_path: Path, point: str) -> None:
    folder, token = tmp_path / "fresh", tmp_path / "token"
    folder.mkdir(0o700)
    token.touch()
    env = {**os.environ, "OUTLIVE_FAILPOINT": f"{point}@{token}"}
    killed = subprocess.run(keeper_argv("guardian", str(folder), "--first"), env=env, check=False, timeout=60)
    assert (killed.returncode, token.exists()) == (-9, False)
    assert (folder / "identity").exists() == (point == "identity.written")
    ran = run_outlive("run", "-c", "echo works", state_dir=folder)
    assert (ran.returncode, ran.stdout) == (0, "works\n")
    assert run_outlive("keeper", "stop", "--kill", state_dir=folder).returncode == 0


def test_a_keeper_goes_on_in_a_folder_that_another_version_has_taken_over(house: House) -> None:
    """It is refused to ours only.

    What runs there is left alone, and is reached again once the number is back.
    """
    house.start(*sh("sleep 1000"))
    identity = house.state_dir / "identity"
    ours = identity.read_text()
    identity.write_text(f"{FORMAT + 1} 9.8.7\n")
    assert "of format 2" in run_outlive("keeper", "status", state_dir=house.state_dir).stderr
    assert house.status()["processes"] == 1
    identity.write_text(ours)
    assert run_outlive("keeper", "status", state_dir=house.state_dir).returncode == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        f"{FORMAT} 1 n \u00b2 3 b\n".encode(),
        f"{FORMAT} 1 n {'9' * 5000} 3 b\n".encode(),
        f"{FORMAT} 1 n 2 3 b".encode(),
        None,
    ],
    ids=["empty", "no text", "other digits", "a long number", "no end of line", "a pipe"],
)
def test_a_damaged_number_is_none(tmp_path: Path, content: bytes | None) -> None:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    (folder / "more").write_text("")
    if content is None:
        os.mkfifo(folder / "identity")
    else:
        (folder / "identity").write_bytes(content)
    with pytest.raises(ConfigInvalid, match="does not say of which format"):
        check_format(Layout(str(folder)))
