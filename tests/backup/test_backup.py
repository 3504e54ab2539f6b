"""Backup and restore of real servers: made while processes write, given back byte by byte, killed at every
step.
"""

import codecs
import gzip
import importlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlive.client import Client, ProcessInfo
from outlive.core.cursor import BEGINNING
from outlive.core.layout import Layout
from outlive.discovery.restoration import restore
from outlive.discovery.state_folder import open_state_folder
from outlive.store.backup.backup_reader import read_backup
from outlive.store.folder import UNFILTERED
from outlive.store.output_log import OutputLog
from tests.keeper.client import until
from tests.support.processes import Gate
from tests.support.server import OutliveServer, outlive_command, run_outlive

_NOBODY = 65534  # of every Linux: a user that owns nothing

pytestmark = [pytest.mark.thorough, pytest.mark.promise("A.backup")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[OutliveServer]:
    with OutliveServer(tmp_path / "state") as server:
        yield server


def _json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def _backup(served: OutliveServer, file: Path, *words: str) -> dict[str, Any]:
    return _json(run_outlive("backup", str(file), "--json", *words, state_dir=served.state_dir))


def _restore(file: Path, state_dir: Path, *words: str) -> dict[str, Any]:
    return _json(run_outlive("restore", str(file), "--json", *words, state_dir=state_dir))


class _Restored:
    """A server on what was restored."""

    def __init__(self, state_dir: Path) -> None:
        self._server = OutliveServer(state_dir)

    def __enter__(self) -> dict[str, ProcessInfo]:
        self._server.__enter__()
        with Client(self._server.state_dir, start_server=False) as client:
            return {info.process_id: info for info in client.list(limit=1000)}

    def __exit__(self, *_: object) -> None:
        self._server.close()


def _size(served: OutliveServer, process_id: str) -> int:
    return (served.state_dir / "processes" / process_id / "out").stat().st_size


def _output(state_dir: Path, process_id: str) -> tuple[bytes, bytes]:
    folder = state_dir / "processes" / process_id
    return tuple((folder / name).read_bytes() if (folder / name).exists() else b"" for name in ("out", "err"))  # type: ignore[return-value]


@pytest.mark.promise("A.restore")
def test_what_has_ended_comes_back_byte_by_byte_and_what_ran_is_lost(
    served: OutliveServer, tmp_path: Path, gate: Gate
) -> None:
    file, elsewhere = tmp_path / "b.tar.gz", tmp_path / "elsewhere"
    with Client(served.state_dir, start_server=False) as client:
        ended = client.start("printf 'a\\0b'; printf err >&2; exit 3", name="first", tags={"k": "v"})
        assert ended.wait(30, until="closed").exit_code == 3
        runs = client.start(f"echo early; {gate.wait}; echo late")
        until(lambda: _size(served, runs.process_id) == 6, "its first line")
        said = _backup(served, file)
        assert (said["processes"], said["running"], said["keys"]) == (2, 1, True)
        assert (said["bytes"], file.stat().st_mode & 0o777) == (file.stat().st_size, 0o600)
        assert [path.name for path in tmp_path.iterdir() if "b.tar" in path.name] == ["b.tar.gz"]
        gate.open()
        assert runs.wait(30, until="closed").exit_code == 0
    assert _restore(file, elsewhere)["running"] == 1
    with _Restored(elsewhere) as found:
        assert found.keys() == {ended.process_id, runs.process_id}
        first, second = found[ended.process_id], found[runs.process_id]
        assert (first.name, first.exit_code, dict(first.tags)) == ("first", 3, {"k": "v"})
        assert (second.state, second.exit_code) == ("lost", None)
        assert "backed up" in (second.error or "")
        assert _output(elsewhere, ended.process_id) == (b"a\0b", b"err")
        assert _output(elsewhere, runs.process_id) == (b"early\n", b"")
    assert _json(run_outlive("audit", "verify", "--json", state_dir=elsewhere))["whole"] is True


@pytest.mark.promise("A.restore")
def test_a_restore_into_the_very_folder_takes_nothing_for_alive(
    served: OutliveServer, tmp_path: Path, gate: Gate
) -> None:
    """The folder's identity is the one in the archive: nothing but the restore knows that its journal is
    old.
    """
    file = tmp_path / "b.tar.gz"
    with Client(served.state_dir, start_server=False) as client:
        runs = client.start(gate.wait)
        _backup(served, file)
        later = client.start("true")
        assert later.wait(30, until="closed").is_closed
    refused = run_outlive("restore", str(file), "--replace", state_dir=served.state_dir)
    assert refused.returncode != 0
    assert f"server (pid {served.pid})" in refused.stderr
    served.stop()
    refused = run_outlive("restore", str(file), "--replace", state_dir=served.state_dir)
    assert (refused.returncode != 0, "keeper" in refused.stderr) == (True, True)
    assert run_outlive("keeper", "stop", "--kill", state_dir=served.state_dir).returncode == 0
    refused = run_outlive("restore", str(file), state_dir=served.state_dir)
    assert (refused.returncode != 0, "holds 2 processes" in refused.stderr) == (True, True)
    _restore(file, served.state_dir, "--replace")
    assert not [name for name in os.listdir(served.state_dir) if name.startswith("restore")]
    served.start()
    with Client(served.state_dir, start_server=False) as client:
        assert {info.process_id: info.state for info in client.list()} == {runs.process_id: "lost"}


def test_a_backup_of_busy_writers_has_every_known_log_and_a_prefix_of_each(
    served: OutliveServer, tmp_path: Path
) -> None:
    """Some print in turns to both streams, one is bounded, others begin, end and are removed meanwhile."""
    stop = threading.Event()
    line = "i=0; while :; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    with Client(served.state_dir, start_server=False) as client:
        writers = [client.start(line) for _ in range(2)]
        bounded = client.start("yes 0123456", output_limit=1 << 20)
        until(lambda: _size(served, bounded.process_id) > 4 << 20, "a released range")

        def come_and_go() -> None:
            with Client(served.state_dir, start_server=False) as another:
                while not stop.is_set():
                    process = another.start("echo short")
                    process.wait(30, until="closed")
                    another.remove(process.process_id)

        thread = threading.Thread(target=come_and_go)
        thread.start()
        try:
            for turn in range(4):
                file, root = tmp_path / f"{turn}.tar.gz", tmp_path / f"r{turn}"
                _backup(served, file)
                root.mkdir()
                with file.open("rb") as source:
                    contents = read_backup(source, into=str(root))
                _check(root, writers=[one.process_id for one in writers], bounded=bounded.process_id)
                assert contents.running >= 3
        finally:
            stop.set()
            thread.join(60)
        for process in (*writers, bounded):
            process.cancel()


def _check(root: Path, *, writers: list[str], bounded: str) -> None:
    layout = Layout(str(root))
    with sqlite3.connect(layout.registry) as registry:
        assert registry.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = registry.execute("SELECT process_id, stdout_bytes, stderr_bytes FROM processes").fetchall()
    for process_id, stdout_bytes, stderr_bytes in rows:
        sizes = [os.path.getsize(path) if os.path.exists(path) else 0 for path in _logs(layout, process_id)]
        assert sizes[0] >= stdout_bytes
        assert sizes[1] >= stderr_bytes
    for process_id in writers:
        log = OutputLog(layout.process(process_id))
        for stream, word in enumerate(("out", "err")):
            path = _logs(layout, process_id)[stream]
            content = Path(path).read_bytes()
            count = content.count(b"\n") + 1
            assert "".join(f"{word} {i}\n" for i in range(count)).encode().startswith(content)
        # In the order of writing the two streams are never more than a pipe apart, and every byte is there
        # once.
        chunks = _all_chunks(log)
        assert sum(len(chunk) for _, chunk in chunks) == log.size(0) + log.size(1)
    log = OutputLog(layout.process(bounded))
    gap = log.gap(0)
    assert gap is not None
    assert gap[1] <= log.size(0)
    assert os.stat(_logs(layout, bounded)[0]).st_blocks * 512 < 4 << 20
    kept = b"".join(chunk for _, chunk in _all_chunks(log))
    assert b"\0" not in kept
    assert kept.startswith(b"0123456\n0123456\n")


def _all_chunks(log: OutputLog) -> list[tuple[int, bytes]]:
    cursor, found = BEGINNING, []
    while chunks := log.read(cursor, 1 << 20):
        found += [(chunk.stream, chunk.data) for chunk in chunks]
        cursor = chunks[0].after(cursor, chunks)
    return found


def _logs(layout: Layout, process_id: str) -> tuple[str, str]:
    return f"{layout.process(process_id)}/out", f"{layout.process(process_id)}/err"


def test_what_entered_a_final_filter_is_backed_up_too(served: OutliveServer, tmp_path: Path) -> None:
    folder = served.state_dir / "processes" / "01m8arfxkh5b83tznvhe3j2pyk"
    (folder / UNFILTERED).mkdir(parents=True)
    (folder / "spec").write_bytes(b"spec")
    (folder / UNFILTERED / "out").write_bytes(b"everything")
    _backup(served, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        kept = tar.extractfile(f"processes/{folder.name}/{UNFILTERED}/out")
        assert kept is not None
        assert kept.read() == b"everything"


def test_without_keys_nothing_that_lets_a_caller_in_is_in_it(served: OutliveServer, tmp_path: Path) -> None:
    made = run_outlive("token", "create", "--name", "ci", "--scope", "read", state_dir=served.state_dir)
    assert made.returncode == 0
    with Client(served.state_dir, start_server=False) as client:
        client.start("true").wait(30, until="closed")
    file, elsewhere = tmp_path / "b.tar.gz", tmp_path / "elsewhere"
    assert _backup(served, file, "--without-keys")["keys"] is False
    with tarfile.open(file) as tar:
        names = {name.partition("/")[0] for name in tar.getnames()}
    assert not names & {"audit", "audit.key", "tokens.json", "mcp.key", "mcp.ended"}
    assert "processes" in names
    _restore(file, elsewhere)
    with _Restored(elsewhere) as found:
        assert len(found) == 1
    assert _json(run_outlive("audit", "verify", "--json", state_dir=elsewhere))["whole"] is True
    assert "ci" not in run_outlive("token", "list", state_dir=elsewhere).stdout


def test_a_backup_goes_through_pipes(served: OutliveServer, tmp_path: Path) -> None:
    with Client(served.state_dir, start_server=False) as client:
        process = client.start("echo piped")
        process.wait(30, until="closed")
    words = [*outlive_command(), "backup", "-", "--state-dir", str(served.state_dir)]
    done = subprocess.run(words, capture_output=True, check=True, timeout=60)
    assert gzip.decompress(done.stdout)
    assert b"1 process" in done.stderr
    elsewhere = tmp_path / "elsewhere"
    words = [*outlive_command(), "restore", "-", "--state-dir", str(elsewhere)]
    subprocess.run(words, input=done.stdout, check=True, timeout=60)
    assert _output(elsewhere, process.process_id) == (b"piped\n", b"")


@pytest.mark.thorough
@pytest.mark.parametrize("has_begun", [False, True])
def test_a_pipe_that_falls_silent_is_given_up_and_leaves_nothing(
    served: OutliveServer, tmp_path: Path, *, has_begun: bool
) -> None:
    """Else a restore would hold the state folder, and no server could start there."""
    _backup(served, tmp_path / "archive")
    fifo, elsewhere = tmp_path / "fifo", tmp_path / "elsewhere"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    try:
        if has_begun:
            os.write(writer, (tmp_path / "archive").read_bytes()[:-1])
        said = run_outlive("restore", str(fifo), state_dir=elsewhere)
    finally:
        os.close(writer)
    words = "the pipe that it comes from is silent" if has_begun else "its end did not come in time"
    assert (said.returncode, words in said.stderr) == (1, True), said
    _restore(tmp_path / "archive", elsewhere)


def test_a_file_that_is_there_is_replaced_only_when_asked(served: OutliveServer, tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("precious")
    refused = run_outlive("backup", str(file), state_dir=served.state_dir)
    assert (refused.returncode != 0, file.read_text()) == (True, "precious")
    _backup(served, file, "--replace")
    assert _json(run_outlive("restore", str(file), "--dry-run", "--json", state_dir=tmp_path / "none"))[
        "dry_run"
    ]
    assert not (tmp_path / "none").exists()
    for words in (
        ["backup", str(tmp_path)],
        ["backup", "/dev/null", "--replace"],
        ["restore", str(tmp_path / "no")],
    ):
        refused = run_outlive(*words, state_dir=served.state_dir)
        assert (refused.returncode != 0, refused.stderr.startswith("outlive: ")) == (True, True), words


def test_a_backup_that_is_killed_leaves_nothing_under_its_name(served: OutliveServer, tmp_path: Path) -> None:
    with Client(served.state_dir, start_server=False) as client:
        process = client.start("head -c 60000000 /dev/urandom")
        process.wait(30, until="closed")
    file = tmp_path / "folder" / "b.tar.gz"
    file.parent.mkdir()
    killed = subprocess.Popen([*outlive_command(), "backup", str(file), "--state-dir", str(served.state_dir)])
    until(lambda: any(part.stat().st_size > 1 << 20 for part in file.parent.iterdir()), "the first megabyte")
    killed.send_signal(signal.SIGKILL)
    killed.wait(30)
    assert not file.exists()
    assert all(part.name.endswith(".part") for part in file.parent.iterdir())
    assert _backup(served, file)["processes"] == 1


@pytest.mark.promise("A.restore")
@pytest.mark.parametrize(
    "step", ["restore.read", "restore.marked", "restore.emptied", "restore.moved", "restore.done"]
)
def test_a_restore_that_is_killed_leaves_the_old_state_or_says_that_it_is_incomplete(
    served: OutliveServer, tmp_path: Path, step: str
) -> None:
    file = tmp_path / "b.tar.gz"
    with Client(served.state_dir, start_server=False) as client:
        first = client.start("echo first")
        first.wait(30, until="closed")
        _backup(served, file)
        second = client.start("echo second")
        second.wait(30, until="closed")
    served.stop()
    assert run_outlive("keeper", "stop", state_dir=served.state_dir).returncode == 0
    token = tmp_path / "token"
    token.touch()
    killed = run_outlive(
        "restore",
        str(file),
        "--replace",
        state_dir=served.state_dir,
        env={"OUTLIVE_FAILPOINT": f"{step}@{token}"},
    )
    assert killed.returncode == -signal.SIGKILL
    state = served.state_dir
    if step in {"restore.read", "restore.done"}:
        # Whole: before the exchange with everything that was there, behind it with what was restored.
        with _Restored(state) as found:
            both = {first.process_id, second.process_id}
            assert found.keys() == (both if step == "restore.read" else {first.process_id})
            assert _output(state, first.process_id) == (b"first\n", b"")
        return
    for words in (
        ["ps"],
        ["keeper", "status"],
        ["serve", "--mcp-port", "off"],
        ["backup", str(tmp_path / "c")],
    ):
        refused = run_outlive(*words, state_dir=state)
        assert (refused.returncode != 0, "is incomplete" in refused.stderr) == (True, True), (
            words,
            refused.stderr,
        )
    _restore(file, state)  # without --replace: there is nothing whole that could be lost
    assert not [name for name in os.listdir(state) if name.startswith("restore")]
    with _Restored(state) as found:
        assert found.keys() == {first.process_id}
        assert _output(state, first.process_id) == (b"first\n", b"")


def test_a_backup_says_how_far_it_is_on_a_terminal_only(served: OutliveServer, tmp_path: Path) -> None:
    done = run_outlive("backup", str(tmp_path / "b"), state_dir=served.state_dir)
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"0 processes, 0B of output, {_shown(tmp_path / 'b')} packed.",
        "Not in it: sockets, locks, the server's and the keeper's logs, containers.",
    ]


def _shown(file: Path) -> str:
    size = file.stat().st_size
    return f"{size / 1024:.1f}K" if size >= 1024 else f"{size}B"


def test_a_folder_that_is_none_is_not_backed_up(tmp_path: Path) -> None:
    refused = run_outlive("backup", str(tmp_path / "b"), state_dir=tmp_path / "none")
    assert (refused.returncode != 0, (tmp_path / "b").exists()) == (True, False)
    assert "nothing has run there" in refused.stderr


@pytest.mark.root("only root can become another user")
def test_another_user_gets_files_of_their_own(served: OutliveServer, tmp_path: Path) -> None:
    with Client(served.state_dir, start_server=False) as client:
        client.start("echo mine").wait(30, until="closed")
    file = tmp_path / "b.tar.gz"
    _backup(served, file)
    home = Path(
        tempfile.mkdtemp(prefix="outlive-restored-")
    )  # not below this user's own folder: another one has to reach it
    os.chown(home, _NOBODY, _NOBODY)
    # The other user may be unable to read this Python.
    importlib.import_module("outlive.kernel.calls")
    codecs.lookup("ascii")
    try:
        with file.open("rb") as source:
            child = os.fork()  # a program of its own would need a Python that the other user can read
            if child == 0:
                try:
                    os.setgroups([])
                    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
                    restore(open_state_folder(str(home / "state"), restores=True), source, replaces=False)
                    os._exit(0)
                finally:
                    os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        owners = {path.lstat().st_uid for path in home.rglob("*")}
        assert (owners, any(home.rglob("out"))) == ({_NOBODY}, True)
    finally:
        shutil.rmtree(home)


def test_a_link_in_the_place_of_a_process_is_not_followed(served: OutliveServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "spec").write_text("elsewhere")
    processes = served.state_dir / "processes"
    processes.mkdir(exist_ok=True)
    (processes / "01m8arfxkh5b83tznvhe3j2pyk").symlink_to(secret)
    try:
        assert _backup(served, tmp_path / "b")["processes"] == 0
    finally:
        (processes / "01m8arfxkh5b83tznvhe3j2pyk").unlink()
