"""What `outlive install` writes is what the hosts' own programs read: Codex and Gemini CLI are asked."""

import json
import os
from pathlib import Path

import pytest

from tests.extensions.hosts.programs import ask, words_for
from tests.extensions.hosts.samples import call_here, sample
from tests.support.server import outlive_command

pytestmark = pytest.mark.thorough


def _home(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
    return {**kept, "HOME": str(folder), "NO_COLOR": "1"}


@pytest.mark.parametrize("text", ["", sample("codex")], ids=["alone", "beside others"])
def test_codex_lists_the_server_and_forgets_it_again(text: str, tmp_path: Path) -> None:
    codex = words_for("codex")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(text)
    call_here(tmp_path, "install", "codex")
    assert "outlive" in ask([*codex, "mcp", "list"], env=_home(tmp_path), cwd=tmp_path)
    told = ask([*codex, "mcp", "get", "outlive", "--json"], env=_home(tmp_path), cwd=tmp_path)
    transport = json.loads(told[told.index("{\n") :])["transport"]
    assert [transport["command"], *transport["args"]] == [*outlive_command(), "mcp", "--mcp-tools", "lean"]
    # What Codex itself takes out is what we would have taken out.
    ask([*codex, "mcp", "remove", "outlive"], env=_home(tmp_path), cwd=tmp_path)
    assert "Nothing to do" in call_here(tmp_path, "uninstall", "codex").stdout


def test_gemini_lists_the_server_and_keeps_the_comments(tmp_path: Path) -> None:
    gemini = words_for("gemini")
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_text('{\n  // mine\n  "mcpServers": {}\n}\n')
    call_here(tmp_path, "install", "gemini-cli")
    told = ask([*gemini, "mcp", "list"], env=_home(tmp_path), cwd=tmp_path)
    assert f"outlive: {outlive_command()[0]} mcp --mcp-tools lean (stdio)" in told
    assert "// mine" in (tmp_path / ".gemini/settings.json").read_text()
