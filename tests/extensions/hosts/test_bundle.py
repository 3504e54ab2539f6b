"""The .mcpb bundle and the registry's server.json: built by the script, judged by their own validators, and
run.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped] # it has no stubs

from outlive import __version__
from outlive.cli.completion import complete_words
from outlive.cli.program import PROGRAM
from tests.extensions.hosts.programs import ask, words_for
from tests.house.sources import ROOT
from tests.mcp_stdio.hosting import INITIALIZE, environment, leave_nothing
from tests.support.server import outlive_command

_SCHEMA = json.loads((ROOT / "tests/extensions/hosts/registry/server.schema.json").read_text())
_URL = "https://github.com/someone/outlive/releases/download/v1/outlive.mcpb"


def _build(folder: Path, *more: str) -> tuple[Path, Path]:
    words = [
        sys.executable,
        "-m",
        "scripts.bundle",
        "--namespace",
        "io.github.someone",
        "--into",
        str(folder),
        *more,
    ]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    bundle, server = map(Path, said.split())
    return bundle, server


def test_the_document_is_right_by_the_schema_of_the_registry(tmp_path: Path) -> None:
    bundle, server = _build(tmp_path, "--bundle-url", _URL)
    document = json.loads(server.read_text())
    Draft7Validator.check_schema(_SCHEMA)
    assert [error.message for error in Draft7Validator(_SCHEMA).iter_errors(document)] == []
    assert document["$schema"] == _SCHEMA["$id"]
    assert document["version"] == __version__
    assert document["packages"][1]["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    assert list(Draft7Validator(_SCHEMA).iter_errors({**document, "name": "no namespace"})) != []


def test_the_same_sources_make_the_same_bundle_without_a_path_of_this_machine(tmp_path: Path) -> None:
    one, other = _build(tmp_path / "one")[0], _build(tmp_path / "other")[0]
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist())
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["description"] == PROGRAM.about
    assert len(manifest["tools"]) >= 3
    for path in (str(ROOT), sys.prefix, os.path.expanduser("~") + "/"):
        assert path not in text


def test_the_validator_of_bundles_takes_it(tmp_path: Path) -> None:
    mcpb = words_for("mcpb")
    bundle, _ = _build(tmp_path)
    ask([*mcpb, "unpack", str(bundle), str(tmp_path / "unpacked")], cwd=tmp_path)
    said = ask([*mcpb, "validate", str(tmp_path / "unpacked/manifest.json")], cwd=tmp_path)
    assert "passes" in said or "valid" in said.lower()


def _words(folder: Path) -> list[str]:
    """Return the command line that a host makes of the manifest."""
    with zipfile.ZipFile(_build(folder)[0]) as archive:
        archive.extractall(folder / "unpacked")
    config = json.loads((folder / "unpacked/manifest.json").read_text())["server"]["mcp_config"]
    return [
        word.replace("${__dirname}", str(folder / "unpacked"))
        for word in (config["command"], *config["args"])
    ]


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (["outlive", "uvx"], "outlive mcp --mcp-tools lean\n"),
        (["uvx"], "uvx outlive mcp --mcp-tools lean\n"),
        ([], ""),
    ],
)
def test_the_launcher_runs_outlive_or_has_uv_fetch_it(there: list[str], said: str, tmp_path: Path) -> None:
    programs = tmp_path / "home/.local/bin"  # where a program with windows does not look by itself
    programs.mkdir(parents=True)
    for name in there:
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)
    if shutil.which("outlive", path="/usr/local/bin") or shutil.which("uvx", path="/usr/local/bin"):
        pytest.skip("the system has the program itself")
    done = subprocess.run(
        _words(tmp_path),
        env={"HOME": str(tmp_path / "home"), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == said
    assert (done.returncode, "not installed" in done.stderr) == ((0, False) if there else (127, True))


@pytest.mark.skipif(
    "--mcp-tools" not in {word for word, _ in complete_words(["mcp", "--"])},
    reason="`outlive mcp` takes no --mcp-tools yet",
)
def test_the_bundle_speaks_mcp_where_outlive_is_installed(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    path = f"{Path(outlive_command()[0]).parent}:{os.environ['PATH']}"
    try:
        done = subprocess.run(
            _words(tmp_path),
            env=environment(
                {"OUTLIVE_STATE_DIR": str(state_dir), "OUTLIVE_CONFIG": os.devnull, "PATH": path}
            ),
            input=line + "\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "outlive"
    finally:
        leave_nothing(state_dir)
