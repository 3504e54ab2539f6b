"""What `outlive install` promises for every host: one body of tests, each host in it."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.cli.completion import complete_words
from outlive.extensions.hosts.table import HOSTS, PORTABLE
from tests.extensions.hosts.samples import USER_FILES, call_here, document, sample, servers, words_of
from tests.mcp_stdio.hosting import INITIALIZE, environment, leave_nothing
from tests.support.server import outlive_command

pytestmark = pytest.mark.parametrize("host", HOSTS)


def _words(host: str, *more: str) -> list[str]:
    program = ["outlive"] if host == PORTABLE else outlive_command()
    return [*program, "mcp", "--mcp-tools", "lean", *more]


def test_an_empty_home_gets_the_file_and_loses_it_again(host: str, tmp_path: Path) -> None:
    done = call_here(tmp_path, "install", host)
    assert done.returncode == 0, done.stderr
    path = tmp_path / USER_FILES[host]
    assert words_of(servers(host, path)["outlive"]) == _words(host)
    assert stat.S_IMODE(path.stat().st_mode) == (0o644 if host == PORTABLE else 0o600)
    assert f"+++ {path}" in done.stdout
    assert HOSTS[host].then in done.stdout
    written = path.read_text()
    again = call_here(tmp_path, "install", host)
    assert (again.returncode, again.stdout.startswith("Nothing to do")) == (0, True)
    assert path.read_text() == written
    gone = call_here(tmp_path, "uninstall", host)
    assert gone.returncode == 0, gone.stderr
    assert [one for one in tmp_path.rglob("*") if not one.is_dir()] == []


@pytest.mark.parametrize("change", [None, "\n", "\r\n"], ids=["as it is", "no last line end", "CRLF"])
def test_a_file_with_servers_and_comments_of_the_user_comes_back_to_the_byte(
    host: str, change: str | None, tmp_path: Path
) -> None:
    text = sample(host)
    text = text if change is None else text.rstrip("\n") if change == "\n" else text.replace("\n", "\r\n")
    path = tmp_path / USER_FILES[host]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    answer = json.loads(call_here(tmp_path, "install", host, "--json").stdout)
    found = servers(host, path)
    assert found["outlive"] == answer["server"]
    new, old = document(host, path.read_bytes().decode()), document(host, text)
    del found["outlive"]
    section = HOSTS[host].section[0]
    assert {**new, section: found} == old
    # What stood there stands there still, line by line, comments included: only a comma may have been added.
    lines = path.read_bytes().decode().split("\n")
    for line in text.split("\n"):
        assert any(one.replace(",", "") == line.replace(",", "") for one in lines), line
    again = json.loads(call_here(tmp_path, "install", host, "--json").stdout)
    assert (again["changed"], again["backup"]) == (False, None)
    # Without the backup the entry is cut out; a last line's end may be there then that was not.
    Path(answer["backup"]).unlink()
    call_here(tmp_path, "uninstall", host)
    assert path.read_bytes().decode().rstrip("\r\n") == text.rstrip("\r\n")
    path.write_bytes(text.encode())
    call_here(tmp_path, "install", host)
    call_here(tmp_path, "uninstall", host)
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("empty", ["", "\n", "section"])
def test_an_empty_file_or_section_comes_back_as_it_was(host: str, empty: str, tmp_path: Path) -> None:
    sections = {
        "json": '{"SECTION":{}}',
        "jsonc": '{"SECTION":{},}',
        "toml": "[SECTION]\n",
        "yaml": "SECTION:\n",
    }
    row = HOSTS[host]
    text = sections[row.format].replace("SECTION", row.section[0]) if empty == "section" else empty
    path = tmp_path / USER_FILES[host]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert call_here(tmp_path, "install", host).returncode == 0
    assert words_of(servers(host, path)["outlive"]) == _words(host)
    assert call_here(tmp_path, "uninstall", host).returncode == 0
    assert path.read_text() == text


def test_what_a_user_added_to_our_entry_stays(host: str, tmp_path: Path) -> None:
    added = {
        "json": '"env": {"A": "b"}',
        "jsonc": '/* of mine */ "env": {"A": "b"}',
        "toml": "env.A = 'b' # mine",
        "yaml": "env: {A: b} # mine",
    }
    call_here(tmp_path, "install", host)
    path = tmp_path / USER_FILES[host]
    text = path.read_text()
    extra = added[HOSTS[host].format]
    if HOSTS[host].format in {"json", "jsonc"}:
        text = text.replace('"outlive": {', f'"outlive": {{ {extra},')
    elif HOSTS[host].format == "toml":
        text = text.replace("command", f"{extra}\ncommand")
    else:
        text = text.replace("    cmd", f"    {extra}\n    cmd")
    path.write_text(text)
    done = call_here(tmp_path, "install", host, "--tools", "documents", "--state-dir", "some/where")
    assert done.returncode == 0, done.stderr
    entry = servers(host, path)["outlive"]
    assert entry["env"] == {"A": "b"}
    assert words_of(entry)[-3:] == ["documents", "--state-dir", str(tmp_path / "some/where")]
    assert extra in path.read_text()


@pytest.mark.parametrize("broken", ['{"a": [', "a = = 1\n- b: [}\n", "[1, 2]"])
def test_a_broken_file_is_left_alone_with_what_to_paste(host: str, broken: str, tmp_path: Path) -> None:
    path = tmp_path / USER_FILES[host]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(broken)
    done = call_here(tmp_path, "install", host)
    assert (done.returncode, done.stdout) == (1, "")
    _, _, pasted = done.stderr.partition("Paste this there by hand:\n")
    found = document(host, pasted)
    for name in HOSTS[host].section:
        found = found[name]
    assert words_of(found["outlive"]) == _words(host)
    gone = call_here(tmp_path, "uninstall", host)
    assert gone.returncode == 1
    assert "by hand" in gone.stderr
    assert path.read_text() == broken
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the one server that all entries lead to."""
    folder = tmp_path_factory.mktemp("state")
    yield folder
    leave_nothing(folder)


@pytest.mark.skipif(
    "--mcp-tools" not in {word for word, _ in complete_words(["mcp", "--"])},
    reason="`outlive mcp` takes no --mcp-tools yet",
)
def test_what_was_written_starts_and_speaks_mcp(host: str, state_dir: Path, tmp_path: Path) -> None:
    done = call_here(tmp_path, "install", host, "--state-dir", str(state_dir), "--json")
    words = words_of(json.loads(done.stdout)["server"])
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    path = f"{Path(outlive_command()[0]).parent}:{os.environ['PATH']}"  # the portable entry looks there
    done = subprocess.run(
        words,
        cwd="/",
        env=environment({"OUTLIVE_CONFIG": os.devnull, "PATH": path}),
        input=line + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "outlive"
