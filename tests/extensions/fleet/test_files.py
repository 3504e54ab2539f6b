"""Files between this machine, its server and a node: one contract for every pair of ends, cuts and kills in
between, and callers that may not.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import (
    AccessDenied,
    BackendUnavailable,
    Client,
    CommandRefused,
    InvalidRequest,
    InvalidState,
    ProcessNotFound,
)
from outlive.core.file_words import PIECE_BYTES
from tests.extensions.fleet.pairs import Pair, a_token, output_of, wait_until
from tests.files.trees import make_tree, state_of, sum_of
from tests.support.rpc import connect
from tests.support.server import OutliveServer, outlive_command, run_outlive

_ENDS = ("", "local:", "far:")


@pytest.mark.promise("S0.19.copy_whole", "S0.19.copy_again")
@pytest.mark.parametrize("source_place", _ENDS)
@pytest.mark.parametrize("target_place", _ENDS)
def test_a_tree_is_the_same_at_the_other_end_and_not_sent_again(
    near: Client, tmp_path: Path, source_place: str, target_place: str
) -> None:
    source = make_tree(tmp_path / "source", large_bytes=5 * PIECE_BYTES + 3)
    (source / "box").mkdir()
    (source / "box").chmod(0o1777)
    words = f"{source_place}{source}", f"{target_place}{tmp_path}/copy"
    done = near.files.copy(*words)
    assert state_of(tmp_path / "copy") == state_of(source)
    assert done.left_out == ()
    again = near.files.copy(*words, compare=True)
    assert (again.files, again.links, again.sent_bytes) == (0, 0, 0)


@pytest.mark.promise("S0.19.copy_ends")
@pytest.mark.parametrize("source_place", _ENDS)
@pytest.mark.parametrize("target_place", _ENDS)
def test_a_folder_is_not_copied_into_itself_whatever_machine_the_ends_are_called(
    near: Client, tmp_path: Path, source_place: str, target_place: str
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_text("x")
    (tmp_path / "link").symlink_to("source")
    for target in ("source", "source/new", "link/new"):
        with pytest.raises(InvalidState, match="into itself"):
            near.files.copy(f"{source_place}{tmp_path}/source/", f"{target_place}{tmp_path}/{target}")
    assert os.listdir(tmp_path / "source") == ["f"]


@pytest.mark.promise("S0.19.copy_whole")
def test_a_process_names_the_machine_and_the_folder_where_it_runs(near: Client, tmp_path: Path) -> None:
    process = near.start("printf done > result.txt", backend="far", cwd=str(tmp_path))
    process.wait(20)
    near.files.copy(f"{process.process_id}:result.txt", f"{tmp_path}/here.txt")
    assert (tmp_path / "here.txt").read_text() == "done"


def test_a_process_that_began_where_its_node_lets_it_has_its_files_there(
    near: Client, tmp_path: Path
) -> None:
    """No folder was named, or one below the node's own: that is where its server runs, and not the home
    folder.
    """
    process = near.start("pwd", backend="far")
    process.wait(20)
    way = os.path.relpath(tmp_path, output_of(process)[0].decode().strip())
    below = near.start("true", backend="far", cwd=way)
    (tmp_path / "old.txt").write_text("old")
    near.files.copy(tmp_path / "old.txt", f"{process.process_id}:{way}/there.txt")
    near.files.copy(f"{below.process_id}:there.txt", tmp_path / "here.txt")
    assert (tmp_path / "here.txt").read_text() == "old"


def test_a_place_that_there_is_not_is_said(near: Client, tmp_path: Path) -> None:
    with pytest.raises(ProcessNotFound, match="no node and no process 'elsewhere'"):
        near.files.copy(f"elsewhere:{tmp_path}", tmp_path / "copy")
    with pytest.raises(InvalidState) as missing:
        near.files.copy(f"far:{tmp_path}/none", tmp_path / "copy")
    assert missing.value.code == "file_missing"


@pytest.mark.promise("S0.19.copy_wall")
def test_no_servers_own_files_are_copied(pair: Pair, near: Client, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(pair.far.state_dir)
    os.link(pair.far.state_dir / "tokens.json", tmp_path / "hard")
    for path in (pair.far.state_dir, f"{tmp_path}/link/tokens.json", f"{tmp_path}/hard"):
        with pytest.raises(AccessDenied) as refusal:
            near.files.copy(f"far:{path}", tmp_path / "copy")
        assert refusal.value.code == "path_refused"
    with pytest.raises(AccessDenied):
        near.files.copy(f"{tmp_path}/link", f"local:{pair.near.state_dir}/new")
    assert not (tmp_path / "copy").exists()


class Cut:
    """Runs `act` once, in a thread, when a copy has brought so many bytes."""

    def __init__(self, pair: Pair, after: int) -> None:
        self.pair = pair
        self._left = after
        self.acting: threading.Thread | None = None

    def __call__(self, arrived: int) -> None:
        """Count."""
        self._left -= arrived
        if self._left <= 0 and self.acting is None:
            self.acting = threading.Thread(target=self.act)
            self.acting.start()

    def act(self) -> None:
        """Cut."""
        raise NotImplementedError


class NodeKilled(Cut):
    """The node's server dies and comes back."""

    def act(self) -> None:
        self.pair.far.kill()
        self.pair.far.restart()


class LineCut(Cut):
    """The line to the node is cut and heals."""

    def act(self) -> None:
        self.pair.proxy.cut()
        self.pair.proxy.heal()


class ServerKilled(Cut):
    """The server that the copy speaks to dies and comes back."""

    def act(self) -> None:
        self.pair.near.kill()
        self.pair.near.restart()


@pytest.mark.thorough
@pytest.mark.promise("S0.19.copy_resumed")
@pytest.mark.parametrize("cut", [NodeKilled, LineCut, ServerKilled])
@pytest.mark.parametrize("is_download", [False, True])
def test_a_copy_that_was_cut_goes_on_when_it_is_repeated(
    own_pair: Pair, tmp_path: Path, cut: type[Cut], is_download: bool
) -> None:
    source, size = tmp_path / "source", 40 * PIECE_BYTES + 1
    source.write_bytes(os.urandom(size))
    target = tmp_path / "copy"
    words = (f"far:{source}", str(target)) if is_download else (str(source), f"far:{target}")
    acting = cut(own_pair, 12 * PIECE_BYTES)
    sent, failures = -1, 0
    with own_pair.client() as client:
        for _ in range(20):
            try:
                sent = client.files.copy(*words, progress=acting).sent_bytes
                break
            except BackendUnavailable:
                failures += 1
                assert not target.exists()
                own_pair.connected()
    assert acting.acting is not None
    acting.acting.join()
    assert sum_of(target) == sum_of(source)
    assert [one.name for one in tmp_path.iterdir() if "outlive-part" in one.name] == []
    # What was there was kept; a short cut is not even noticed, and what was under way is asked for again.
    assert 0 <= sent < size or (cut is LineCut and not failures)


@pytest.mark.thorough
@pytest.mark.promise("S0.19.copy_resumed")
def test_a_copy_whose_program_was_killed_goes_on_when_it_is_typed_again(pair: Pair, tmp_path: Path) -> None:
    source, size = tmp_path / "source", 64 * PIECE_BYTES
    source.write_bytes(os.urandom(size))
    words = [*outlive_command(), "cp", str(source), f"far:{tmp_path}/copy"]
    words += ["--state-dir", str(pair.near.state_dir), "--json"]
    copying = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    parts: list[Path] = []
    while not (parts and parts[0].stat().st_size > 4 * PIECE_BYTES):
        parts = list(tmp_path.glob(".copy.*"))
        assert copying.poll() is None
    copying.send_signal(signal.SIGKILL)
    copying.communicate()
    assert not (tmp_path / "copy").exists()
    with pair.client() as client:
        done = client.files.copy(source, f"far:{tmp_path}/copy")
    assert done.sent_bytes <= size - 4 * PIECE_BYTES
    assert sum_of(tmp_path / "copy") == sum_of(source)


@pytest.mark.thorough
@pytest.mark.promise("S0.19.copy_callers")
def test_a_caller_that_only_reads_copies_nothing(own_pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    token = a_token(own_pair.near, "reader", "read")
    with Client(url=own_pair.near.url, token=token) as client, pytest.raises(AccessDenied) as refusal:
        client.files.copy(f"local:{tmp_path}/f", tmp_path / "copy")
    assert refusal.value.code == "scope_missing"


@pytest.mark.promise("S0.19.copy_callers")
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--profile", "guarded"), "profile_too_weak"),
        (("--allow", "ls *"), "command_not_allowed"),
        (("--deny", "outlive cp *"), "command_denied"),
    ],
)
def test_a_caller_that_may_not_run_any_command_copies_nothing(
    tmp_path: Path, args: tuple[str, ...], code: str
) -> None:
    (tmp_path / "f").write_text("x")
    with OutliveServer(tmp_path / "server", args=args) as server:
        token = a_token(server, "runner", "run")
        with Client(url=server.url, token=token) as client:
            for words in ((f"local:{tmp_path}/f", f"{tmp_path}/a"), (f"{tmp_path}/f", f"local:{tmp_path}/b")):
                with pytest.raises(CommandRefused) as refusal:
                    client.files.copy(*words)
                assert refusal.value.code == code
    assert not (tmp_path / "b").exists()


@pytest.mark.promise("S0.19.copy_callers")
def test_lists_judge_where_a_path_leads_and_no_way_upwards(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "f").write_text("mine")
    (outside / "f").write_text("secret")
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "f")
    (inside / "same").symlink_to("f")
    args = ("--allow", f"outlive cp . local:{inside}/*,outlive cp local:{inside}/* .")
    with (
        OutliveServer(tmp_path / "server", args=args) as server,
        Client(url=server.url, token=a_token(server, "runner", "run")) as client,
    ):
        client.files.copy(f"local:{inside}/f", tmp_path / "a")
        client.files.copy(f"local:{inside}/same", tmp_path / "b")
        client.files.copy(tmp_path / "a", f"local:{inside}/new")
        for words, code in (
            ((f"local:{inside}/../out/f", f"{tmp_path}/c"), "command_opaque"),
            ((f"local:{inside}/link/f", f"{tmp_path}/c"), "command_not_allowed"),
            ((f"local:{inside}/file", f"{tmp_path}/c"), "command_not_allowed"),
            ((f"local:{inside}/link", f"{tmp_path}/c"), "command_not_allowed"),
            ((f"{tmp_path}/a", f"local:{inside}/../out/new"), "command_opaque"),
            ((f"{tmp_path}/a", f"local:{inside}/link/new"), "command_not_allowed"),
        ):
            with pytest.raises(CommandRefused) as refusal:
                client.files.copy(*words)
            assert refusal.value.code == code
    assert (inside / "new").read_text() == "mine"
    assert not (tmp_path / "c").exists()
    assert os.listdir(outside) == ["f"]


@pytest.mark.promise("S0.19.copy_callers")
def test_lists_judge_where_a_path_leads_on_a_node(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "f").write_text("mine")
    (outside / "f").write_text("secret")
    (inside / "link").symlink_to(outside)
    args = ("--allow", f"outlive cp far:{inside}/* .")
    with Pair(tmp_path, near_args=args) as pair, pair.client() as client:
        client.files.copy(f"far:{inside}/f", tmp_path / "a")
        with pytest.raises(CommandRefused) as refusal:
            client.files.copy(f"far:{inside}/link/f", tmp_path / "b")
    assert refusal.value.code == "command_not_allowed"
    assert not (tmp_path / "b").exists()


@pytest.fixture
def one_way(tmp_path: Path) -> Iterator[Pair]:
    """A pair whose lists let `f` be copied from the node, and `box` be filled there."""
    (tmp_path / "f").write_text("theirs")
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "g").write_text("secret")
    args = ("--allow", f"outlive cp far:{tmp_path}/f .,outlive cp . far:{tmp_path}/box")
    with Pair(tmp_path, near_args=args) as pair:
        yield pair


@pytest.mark.promise("S0.19.copy_direction")
async def test_lists_that_allow_one_direction_open_no_other_one_on_a_node(
    one_way: Pair, tmp_path: Path
) -> None:
    piece = {"key": "00112233445566ff", "data": "bWluZQ=="}
    async with connect(one_way.near.url) as client:
        asked: dict[str, object] = {"place": "far", "path": f"{tmp_path}/f"}
        copy = (await client.request("file_open", **asked))["copy"]
        assert (await client.failure("file_write", copy=copy, **piece)).reason == "invalid_params"
        asked = {"place": "far", "path": f"{tmp_path}/box", "write": True}
        copy = (await client.request("file_open", **asked))["copy"]
        assert (await client.failure("file_read", copy=copy, name="g")).reason == "invalid_params"
        refused = await client.failure("file_digest", copy=copy, name="g", length=1)
        assert refused.reason == "invalid_params"
        await client.request("file_write", copy=copy, name="new", **piece)
        assert (
            await client.failure("file_open", **{**asked, "write": False})
        ).reason == "command_not_allowed"
    assert (tmp_path / "f").read_text() == "theirs"


@pytest.mark.thorough
@pytest.mark.promise("S0.19.copy_callers")
def test_a_caller_inside_of_a_bounded_process_copies_nothing(own_pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    line = (
        f"{' '.join(outlive_command())} cp local:{tmp_path}/f local:{tmp_path}/copy --state-dir "
        f"{own_pair.near.state_dir}"
    )
    with own_pair.client() as client:
        process = client.start(line, profile="guarded", grant="run")
        info = process.wait(30)
        said = b"".join(getattr(item, "data", b"") for item in process.read("0").items)
    assert info.exit_code != 0
    assert b"weaker than" in said, said
    assert not (tmp_path / "copy").exists()


@pytest.mark.thorough
@pytest.mark.promise("S0.19.copy_callers")
def test_the_audit_log_has_each_copy_at_both_servers(own_pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("text")
    with own_pair.client() as client:
        client.files.copy(f"{tmp_path}/f", f"far:{tmp_path}/copy")
        with pytest.raises(AccessDenied):
            client.files.copy(f"far:{own_pair.far.state_dir}", tmp_path / "none")
    for server, place in ((own_pair.near, "far"), (own_pair.far, "local")):

        def entries(server: OutliveServer = server, place: str = place) -> bool:
            shown = run_outlive("audit", "show", "--json", state_dir=server.state_dir).stdout
            return (
                f'"path": "{tmp_path}/copy"' in shown.replace('":"', '": "')
                and '"copied"' in shown
                and '"bytes_written": 4' in shown.replace('":', '": ').replace(":  ", ": ")
                and place in shown
            )

        wait_until(entries)


@pytest.mark.parametrize("word", ["far:", "local:"])
def test_a_place_without_a_path_is_the_home_folder(near: Client, tmp_path: Path, word: str) -> None:
    name = f".outlive-test-{os.getpid()}-{word[:3]}"
    (tmp_path / name).write_text("x")
    home = Path.home() / name
    try:
        near.files.copy(tmp_path / name, word)
        assert home.read_text() == "x"
    finally:
        home.unlink(missing_ok=True)


def test_a_word_without_a_name_is_refused(near: Client) -> None:
    with pytest.raises(InvalidRequest):
        near.files.copy("", "far:x")
