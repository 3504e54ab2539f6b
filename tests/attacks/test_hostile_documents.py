"""Documents that others wrote end no program of ours with a traceback, and keep nothing waiting: a project's
files, a host's, a node's answers, and the files of a state folder that an archive has written.
"""

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.client.messages import read_frame
from outlive.client.runtime import refused
from outlive.core.errors import OutliveError
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.discovery.ownership import Ownership
from outlive.engine.starts.standing_file import StandingFile
from outlive.extensions.fleet.joined.messages import read_for_gateway, read_for_node
from outlive.extensions.hosts.editor import FormatName, NotEditable
from outlive.extensions.hosts.entry import editor_of
from outlive.extensions.services.service_files import ServiceFiles
from outlive.policy.access import decode_tokens
from outlive.protocols.keeper import decode_message, decode_spec
from outlive.protocols.mcp.tasks import TaskCall
from outlive.store.audit.audit_chain import AuditKey, read_line
from outlive.store.folder import read_folder, read_labels
from outlive.store.log_mask import read_masks
from outlive.store.queue_store import QueueStore
from tests.support.server import outlive_command

_DEEP = b"[" * 100_000, b'{"a":' * 100_000, b'{"n": ' + b"9" * 5000 + b"}", b'{"n": 1e999}', b"\xff", b""
_ID = "01m8arfxkh5b83tznvhe3j2pyk"


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("OUTLIVE_")}
    state = {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "c"),
        "OUTLIVE_STATE_DIR": str(folder / "s"),
    }
    return subprocess.run(
        [*outlive_command(), *words],
        cwd=folder,
        env=clean | state,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000, "a" + ".a" * 100_000 + " = 1", "grace = " + "9" * 5000, "grace = inf"]
)
def test_a_project_file_is_refused_in_words(text: str, tmp_path: Path) -> None:
    (tmp_path / ".outlive.toml").write_text(text)
    (tmp_path / "outlive.processes.toml").write_text(text)
    for words in (("policy", "check", "true"), ("up", "--no-start")):
        done = _run(tmp_path, *words)
        assert done.returncode in {1, 2}
        assert "Traceback" not in done.stderr
        assert len(done.stderr) < 2000


def test_a_pipe_in_the_place_of_a_project_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".outlive.toml")
    done = _run(tmp_path, "policy", "check", "true")
    assert done.returncode == 1
    assert "no regular file" in done.stderr


_PIPED = """OUTLIVE_CONFIG=<(echo 'deny = ["true"]') "$@\""""


def test_a_pipe_that_a_person_names_is_read(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", _PIPED, "-", *outlive_command(), "policy", "check", "true"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout.split()[0]) == (4, "deny"), done.stderr


_BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("yaml", "a: " + "[" * 50_000),
        ("yaml", "- " * 5000 + "x"),
        ("yaml", _BOMB),
        ("yaml", _BOMB + "b:\n  <<: *a39\n"),
        ("yaml", "a: &a [*a]"),
        ("yaml", "a: " + "9" * 5000),
        ("yaml", "a: " + "1:" * 1000 + "1.5"),
        ("yaml", "a: !!int ''"),
        ("yaml", "a: !!bool x"),
        ("yaml", "a: !!timestamp x"),
        ("toml", "a = " + "[" * 5000),
        ("toml", "a" + ".a" * 100_000 + " = 1"),
        ("toml", "a = " + "9" * 5000),
        ("jsonc", '{"a": ' + "[" * 100_000),
        ("json", '{"a":' * 100_000),
        ("json", '{"a": ' + "9" * 5000 + "}"),
    ],
    ids=range(16),
)
def test_a_file_of_a_host_is_edited_or_refused(form: FormatName, text: str) -> None:
    with pytest.raises(NotEditable):
        editor_of(form).put(text, ("servers", "outlive"), value={"command": "x"})


def test_a_yaml_file_with_aliases_is_edited() -> None:
    text = "base: &b {x: 1}\none: *b\ntwo:\n  <<: *b\n"
    assert editor_of("yaml").put(text, ("extensions", "outlive"), value={"cmd": "x"}).startswith(text)


def _services(folder: Path) -> object:
    return ServiceFiles(Layout(str(folder)), fit=lambda write: write()).read()


def _process(folder: Path) -> object:
    return read_folder(str(folder / "processes" / _ID), ProcessId(_ID), is_live=False)


_READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "tokens": ("tokens.json", lambda folder: decode_tokens((folder / "tokens.json").read_bytes())),
    "operator": ("operator.json", lambda folder: Ownership(Layout(str(folder))).operator_settings()),
    "labels": ("labels", lambda folder: read_labels(str(folder))),
    "masks": ("masks", lambda folder: read_masks(str(folder))),
    "key": ("audit.key", lambda folder: AuditKey.read(str(folder / "audit.key"))),
    "limits": ("waiting/limits.json", lambda folder: QueueStore(Layout(str(folder))).open()),
    "order": ("waiting/order.json", lambda folder: QueueStore(Layout(str(folder))).open()),
    "waiting": (f"waiting/{_ID}", lambda folder: QueueStore(Layout(str(folder))).open()),
    "services": (f"services/{'0' * 32}.json", _services),
    "always": ("always.json", lambda folder: StandingFile(str(folder / "always.json")).read()),
    **{name: (f"processes/{_ID}/{name}", _process) for name in ("done", "stop", "labels", "spec")},
}


@pytest.mark.parametrize("reader", _READERS)
@pytest.mark.parametrize("content", _DEEP, ids=range(len(_DEEP)))
def test_a_file_of_the_state_folder_is_read_or_refused(reader: str, content: bytes, tmp_path: Path) -> None:
    name, read = _READERS[reader]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)
    with contextlib.suppress(OutliveError):
        read(tmp_path)


@pytest.mark.parametrize("content", _DEEP, ids=range(len(_DEEP)))
def test_what_another_machine_or_a_command_sends_is_read_or_refused(content: bytes) -> None:
    for read in (read_frame, read_for_node, read_for_gateway):
        with pytest.raises(OutliveError):
            read(content)
        with pytest.raises(OutliveError):
            read(content.decode(errors="replace"))
    assert isinstance(refused(500, content), Exception)
    for decode in (
        lambda: decode_message(b"J" + content),
        lambda: decode_spec(b"outlive-spec-1 %d\n%s" % (len(content), content)),
        lambda: ContainerPlan.decode(content),
    ):
        with pytest.raises(ValueError, match=r"."):
            decode()
    assert read_line(content) is None
    assert TaskCall.decode(content) is None
