"""Finding and reading the configuration files: the user's, the system's, and the project's.

OUTLIVE_CONFIG in the environment names one file that replaces the user's and the system's. Only text is read
here: parsing, and which file wins, belong to `config`.
"""

import os
from collections.abc import Callable, Mapping

from outlive.config import ConfigFile
from outlive.core.documents import MAX_TOML_BYTES
from outlive.core.errors import ConfigInvalid
from outlive.discovery.config_paths import SYSTEM_FILE, VARIABLE, user_file
from outlive.files.documents import read_found, read_named

PROJECT_FILE = ".outlive.toml"


def read_config_files(
    environ: Mapping[str, str],
    *,
    working_folder: str,
    with_project: bool = True,
    say: Callable[[str], None] = lambda _line: None,
) -> list[ConfigFile]:
    """Return the files that exist; `say` gets a line about a file that is ignored.

    The project's file lies in the working folder or the nearest folder above that has one. A file of another
    user (not root) is ignored with a line to `say`: a user that can write to a folder above must not decide
    about this user's server.

    Raises:
        ConfigInvalid: A file exists but cannot be read, or is not text.
    """
    files = []
    named = environ.get(VARIABLE)
    if named:
        files.append(_read(ConfigFile("user", os.path.join(working_folder, named), ""), is_named=True))
    else:
        user = user_file(environ)
        if user is not None:
            files.append(_read(ConfigFile("user", user, "")))
        files.append(_read(ConfigFile("system", SYSTEM_FILE, "")))
    if with_project:
        files.append(_project_file(working_folder, say))
    found = [file for file in files if file is not None]
    if named and not files[0]:
        raise ConfigInvalid(
            "config_invalid",
            f"{VARIABLE}={named} is not there.",
            hint="Write the file, or unset the variable.",
        )
    return found


def _project_file(working_folder: str, say: Callable[[str], None]) -> ConfigFile | None:
    """Return the nearest project file from the working folder upwards; None without one, or when it is
    another user's.
    """
    folder = working_folder
    while True:
        path = os.path.join(folder, PROJECT_FILE)
        try:
            owner = os.stat(path).st_uid
        except OSError:
            above = os.path.dirname(folder)
            if above == folder:
                return None
            folder = above
            continue
        if owner not in {0, os.geteuid()}:
            say(f"outlive: {path} belongs to another user (uid {owner}); it is left alone")
            return None
        return _read(ConfigFile("project", path, ""))


def _read(file: ConfigFile, *, is_named: bool = False) -> ConfigFile | None:
    read = read_named if is_named else read_found
    try:
        return ConfigFile(file.kind, file.path, read(file.path, MAX_TOML_BYTES).decode())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise ConfigInvalid("config_invalid", f"{file.path} is no UTF-8 text ({error.reason}).") from None
    except OSError as error:
        raise ConfigInvalid("config_invalid", f"{file.path} cannot be read: {error.strerror}.") from error
