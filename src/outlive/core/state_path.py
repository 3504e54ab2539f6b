"""Where the state folder is when nothing but the environment says so: the rule that all programs of ours share. Pure.

`config.resolution` settles all settings; clients need this one only, and start faster without the others.
"""

import os
from collections.abc import Mapping

from outlive.core.errors import ConfigInvalid

VARIABLE = "OUTLIVE_STATE_DIR"


def default_state_dir(environ: Mapping[str, str]) -> str:
    """Return the folder where neither flag, variable nor file names one.

    Raises:
        ConfigInvalid: `state_folder`: there is no home folder.
    """
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):  # relative ones are to be ignored (XDG Base Directory Specification 0.8)
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            raise ConfigInvalid(
                "state_folder",
                "There is no home folder to keep the state in (HOME is not set).",
                hint=f"Name a folder: --state-dir /path or {VARIABLE}=/path.",
            )
        base = f"{home}/.local/state"
    return f"{base}/outlive"


def absolute_path(path: str, environ: Mapping[str, str], working_folder: str) -> str:
    """Return a path as it is meant: below the home folder after `~`, else below the working folder."""
    if path == "~" or path.startswith("~/"):
        path = environ.get("HOME", "~") + path[1:]
    return os.path.normpath(os.path.join(working_folder, path))
