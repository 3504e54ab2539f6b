"""Where the user's and the system's configuration files are, and whether there is one at all.

The environment's OUTLIVE_CONFIG names one file that stands in the place of both. Apart from `config_files`,
which imports all settings: a client where there is no file starts without them.
"""

import os
from collections.abc import Mapping

SYSTEM_FILE = "/etc/outlive/config.toml"
VARIABLE = "OUTLIVE_CONFIG"


def user_file(environ: Mapping[str, str]) -> str | None:
    """Return the path of the user's file, whether it exists or not; None without a home folder."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        base = f"{home}/.config"
    return f"{base}/outlive/config.toml"


def standing_file(environ: Mapping[str, str], *, working_folder: str) -> str | None:
    """Return the path of what the user has approved for always, beside the settings.

    None without a home folder, and for a user that has said (`OUTLIVE_CONFIG=/dev/null`) that there are no
    settings.
    """
    named = environ.get(VARIABLE)
    if named == os.devnull:
        return None
    settings = os.path.join(working_folder, named) if named else user_file(environ)
    return None if settings is None else os.path.join(os.path.dirname(settings), "always.json")


def own_files(environ: Mapping[str, str], *, working_folder: str) -> list[str]:
    """Return the paths of settings and of what was approved for always, whether the files exist or not.

    A project's file is none of them: it lies among the project's files, and may only tighten.
    """
    named = environ.get(VARIABLE)
    paths = (user_file(environ), standing_file(environ, working_folder=working_folder), SYSTEM_FILE)
    found = [path for path in paths if path is not None]
    return [*found, os.path.join(working_folder, named)] if named and named != os.devnull else found


def has_config_files(environ: Mapping[str, str]) -> bool:
    """Tell whether there may be a file: whether the settings have to be asked where the state folder is."""
    paths = (user_file(environ), SYSTEM_FILE)
    return bool(environ.get(VARIABLE)) or any(path is not None and os.path.lexists(path) for path in paths)
