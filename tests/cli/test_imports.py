"""What a call of the command line imports: counted, not timed.

Everything else is loaded where it is needed.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.launching import environment
from tests.support.server import OutliveServer

_CODE = """
import atexit, sys
atexit.register(lambda: open({path!r}, "w").write(" ".join(sys.modules)))
sys.argv = ["outlive", *{words!r}]
from outlive.cli.main import main
main()
"""
# Libraries, and rooms of ours that a call to this machine's server has no use for.
_NEVER = {
    "argparse",
    "asyncio",
    "base64",
    "click",
    "email",
    "hashlib",
    "httpx2",
    "mcp",
    "msgspec",
    "outlive.discovery.ownership",
    "outlive.discovery.server_lock",
    "outlive.app",
    "outlive.backends",
    "outlive.config",
    "outlive.engine",
    "outlive.frontends",
    "outlive.policy",
    "outlive.server",
    "outlive.store",
    "pydantic",
    "shutil",
    "sqlite3",
    "ssl",
    "starlette",
    "subprocess",
    "tempfile",
    "urllib",
    "uvicorn",
    "uvloop",
    "websockets",
}


def _imported(words: list[str], folder: Path, state_dir: str) -> set[str]:
    path = folder / "modules"
    code = _CODE.format(path=str(path), words=words)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment({"OUTLIVE_STATE_DIR": state_dir}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(path.read_text().split()) - {"sitecustomize", "usercustomize"}  # the machine's, not ours


@pytest.mark.parametrize(
    ("words", "at_most"),
    [(["ps"], 160), (["ps", "--all", "--json", "--limit", "5"], 158), (["run", "--", "true"], 171)],
)
def test_a_call_to_this_machines_server_imports_little(
    server: OutliveServer, words: list[str], at_most: int, tmp_path: Path
) -> None:
    modules = _imported(words, tmp_path, str(server.state_dir))
    assert "outlive.client" in modules
    assert modules & _NEVER == set()
    assert len(modules) <= at_most, len(modules)


def test_a_log_is_read_without_settings_rules_and_compressors(server: OutliveServer, tmp_path: Path) -> None:
    """It reads files, and asks the server what the name means."""
    _imported(["run", "--name", "log-imports", "--", "true"], tmp_path, str(server.state_dir))
    modules = _imported(["logs", "log-imports"], tmp_path, str(server.state_dir))
    rules = {"outlive.policy.command_reader", "outlive.policy.rules", "outlive.policy.starters"}
    assert modules & ((_NEVER | rules) - {"outlive.policy", "outlive.store"}) == set()
    assert len(modules) <= 185, len(modules)


def test_the_help_imports_no_verb(tmp_path: Path) -> None:
    modules = _imported(["--help"], tmp_path, str(tmp_path / "state"))
    assert modules & (_NEVER | {"dataclasses", "outlive.client", "outlive.discovery"}) == set()
    assert not any(name.startswith("outlive.cli.verbs") for name in modules)
    assert len(modules) <= 88, len(modules)


def test_a_configuration_file_is_still_asked(tmp_path: Path) -> None:
    """Without one the folder is found without the settings; with one they decide, as they always have."""
    file = tmp_path / "config" / "outlive" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'state_dir = "{tmp_path / "named"}"\n')
    done = subprocess.run(
        [sys.executable, "-m", "outlive", "doctor", "--json"],
        env=environment({"XDG_CONFIG_HOME": str(tmp_path / "config"), "OUTLIVE_STATE_DIR": ""}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(done.stdout)["state_dir"] == str(tmp_path / "named")
