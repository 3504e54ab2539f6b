"""A state folder in which something lies that cannot be used: it is named at once."""

from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.kernel.folder_identity import claim_folder
from tests.support.server import run_outlive

_VERBS = {
    "serve": (
        "serve",
        "--jsonrpc-port",
        "0",
        "--mcp-port",
        "off",
        "--rest-port",
        "off",
        "--bridge-port",
        "off",
    ),
    "keeper status": ("keeper", "status"),
    "keeper stop": ("keeper", "stop"),
    "run": ("run", "-c", "true"),
    "doctor": ("doctor",),
}


@pytest.mark.parametrize("verb", _VERBS)
@pytest.mark.parametrize(
    "lock", ["server.lock", "supervisor.lock", "supervisor.pid", "guardian.lock", "keeper.lock"]
)
def test_a_lock_that_is_a_folder_is_named_by_every_verb(tmp_path: Path, verb: str, lock: str) -> None:
    """Issue 19, section 6: the supervisor could not start, and a server waited 20 s for it."""
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    claim_folder(Layout(str(folder)))
    (folder / lock).mkdir()
    refused = run_outlive(*_VERBS[verb], state_dir=folder)
    assert refused.returncode != 0
    assert f"{folder / lock} is a folder" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert sorted(path.name for path in folder.iterdir()) == sorted(["identity", lock]), "nothing was started"
