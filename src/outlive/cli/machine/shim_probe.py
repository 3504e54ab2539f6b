"""Which kind of shim commands get here, and why if it is the larger one (decision 126)."""

import os
import subprocess

from outlive.cli.server.keeper_client import KeeperClient
from outlive.core.errors import OutliveError
from outlive.core.layout import Layout
from outlive.discovery.keeper import find_shim
from outlive.keeper.common.shim_program import SHIM_VARIABLE

_PATIENCE_S = 5.0


def probe_shims(state_dir: str) -> tuple[bool, str]:
    """Return whether shims are a program of their own, and what there is to say about it."""
    path = os.environ.get(SHIM_VARIABLE) or find_shim()
    if path is None:
        return (
            False,
            "none is shipped for this machine, and none was compiled (`make setup` in a checkout does)",
        )
    if not path.startswith("/"):
        return False, f"switched off: {SHIM_VARIABLE} is {path!r}"
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"{path} cannot be executed: {getattr(error, 'strerror', None) or error}"
    if done.returncode:
        return False, f"{path} is no program for shims"
    if keeper_status(state_dir).get("shims") == "fork":
        return (
            False,
            f"{path}; but the keeper that runs was started without it, or could not execute it (see its log)",
        )
    return True, path


def keeper_status(state_dir: str) -> dict[str, object]:
    """Return what the keeper says of itself, {} where none runs."""
    try:
        with KeeperClient(Layout(state_dir)) as keeper:
            return keeper.ask({"op": "status"})
    except (OutliveError, OSError):
        return {}
