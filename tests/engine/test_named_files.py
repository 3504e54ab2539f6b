"""What is found of the files that a command names: what they hold, and when that is not known for certain."""

import fcntl
import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.command import Command
from outlive.engine.commands.named_files import NamedFiles, changed_file, look_at_files
from outlive.engine.commands.resolver import look_up
from outlive.policy.command_reader import read_command

_PATH = "/usr/bin:/bin"


def _look(command: Command, cwd: Path, *, path: str = _PATH) -> NamedFiles:
    reading = read_command(command, {"PATH": path})
    words = {one.argv[0] for one in reading.commands}
    files = {word: look_up(word, path=path, cwd=str(cwd), own_path=path) for word in words}
    program = "/bin/sh"
    if command.argv is not None and (file := files[command.argv[0]]) is not None:
        program = file.found
    return look_at_files(reading, files, program=program, cwd=str(cwd), path=path)


def _argument(cwd: Path, word: str) -> NamedFiles:
    return _look(Command(argv=("cat", word)), cwd)


def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    """A pipe would block for ever, a terminal would become ours, a lease would have to be waited for."""
    os.mkfifo(tmp_path / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    master, slave = os.openpty()
    leased = tmp_path / "leased"
    leased.write_text("x")
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # what tells us that our lease is wanted
    lease = os.open(leased, os.O_RDWR)
    fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    found: dict[str, NamedFiles] = {}

    def look() -> None:
        for name in ("pipe", "socket", os.ttyname(slave), "/dev/null", "/dev/stdin", "leased"):
            found[name] = _argument(tmp_path, name)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert [name for name, one in found.items() if one.uncertain] == ["pipe", "socket", "leased"]
    for fd in (master, slave, lease):
        os.close(fd)
    listening.close()
    signal.signal(signal.SIGIO, before)


def test_what_is_too_large_is_not_certain_and_its_times_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.engine.commands.named_files._MAX_BYTES", 2_000_000)
    file = tmp_path / "file"
    for size, is_certain in ((1000, True), (2_000_001, False), (1 << 40, False)):
        with open(file, "wb") as opened:
            opened.truncate(size)
        found = _argument(tmp_path, "file")
        assert (found.uncertain == "") == is_certain, size
        assert changed_file(found.states, cwd=str(tmp_path)) is None
        os.utime(file, ns=(0, size))
        assert changed_file(found.states, cwd=str(tmp_path)) == (None if is_certain else "file")


def test_all_files_of_a_command_share_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlive.engine.commands.named_files._MAX_BYTES", 2_000_000)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(bytes(1_500_000))
    assert not _argument(tmp_path, "one").uncertain
    assert "'two'" in _look(Command(argv=("cat", "one", "two")), tmp_path).uncertain
    monkeypatch.setattr("outlive.engine.commands.named_files._MOST", 3)
    assert "more files" in _look(Command(argv=("cat", *"abcdef")), tmp_path).uncertain


def test_words_that_are_made_to_hold_many_names_cost_no_more(tmp_path: Path) -> None:
    for word in (":" * 130_000, "a:" * 60_000, "x" * 130_000):
        found = _argument(tmp_path, word)
        assert len(found.states) <= 1000
        assert changed_file(found.states, cwd=str(tmp_path)) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and replaces every file")
def test_of_what_only_root_can_replace_the_path_counts_and_what_cannot_be_read_is_uncertain(
    tmp_path: Path,
) -> None:
    assert all(
        state.startswith("settled") for state in _look(Command(argv=("/bin/cat",)), tmp_path).states.values()
    )
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    assert "cannot be read" in _argument(tmp_path, "closed").uncertain


def test_what_is_only_written_counts_by_where_it_leads_and_what_is_read_as_well_by_its_content(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    for line, counts in (
        ("cat x > file", False),
        ("cat x >> file && cat file", True),
        ("cat <file >file", True),
    ):
        file.write_text("before")
        states = _look(Command(line=line), tmp_path).states
        file.write_text("after")
        assert changed_file(states, cwd=str(tmp_path)) == ("file" if counts else None), line
        file.unlink()
        file.symlink_to(tmp_path / "other")
        assert changed_file(states, cwd=str(tmp_path)) == "file"
        file.unlink()


def test_a_chain_of_interpreters_is_followed_to_its_end(tmp_path: Path) -> None:
    for name, first in (("one", f"{tmp_path}/two -x"), ("two", "/usr/bin/env three"), ("three", "/bin/sh")):
        (tmp_path / name).write_text(f"#!{first}\n")
        (tmp_path / name).chmod(0o755)
    found = _look(Command(argv=("./one",)), tmp_path, path=f"{tmp_path}:{_PATH}")
    assert found.interpreters["one"] == ["two"]
    assert found.interpreters["three"] == ["sh"]
    for name in ("two", "three"):
        assert f"{tmp_path}/{name}" in found.states
    (tmp_path / "ring").write_text(f"#!{tmp_path}/ring\n")
    (tmp_path / "ring").chmod(0o755)
    assert _look(Command(argv=("./ring",)), tmp_path).interpreters["ring"]


@given(
    before=st.binary(max_size=20),
    after=st.binary(max_size=20),
    word=st.sampled_from(
        ["f", "./f", "sub/../f", "-xf", "--file=f", "@f", "a:f", "f::b", "k=@f", "f,g", "link"]
    ),
)
def test_a_named_file_has_changed_exactly_if_it_holds_something_else(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, word: str
) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("f")
    (folder / "f").write_bytes(before)
    states = _argument(folder, word).states
    (folder / "f").write_bytes(after)
    assert (changed_file(states, cwd=str(folder)) is None) == (before == after)
