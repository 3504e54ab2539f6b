"""The state folder: where it is, that it is this user's alone (mode 0700), and that it is writable.

The paths inside it belong to `core.layout`, the folder's identity to `kernel.folder_identity`, and
that one server at a time uses it to `server_lock`.
"""

import contextlib
import os
import stat

from outlive.core.errors import ConfigInvalid
from outlive.core.layout import VARIABLE, Layout, absolute_path, default_state_dir
from outlive.discovery.config_paths import has_config_files
from outlive.kernel.folder_identity import check_format, claim_folder
from outlive.kernel.project import working_folder

_PRIVATE = 0o700


def layout_of(state_dir: str | None) -> Layout:
    """Return the layout for a verb with or without `--state-dir`; creates nothing.

    Reads only the settings that name the folder: a bad MAX_SESSIONS must not prevent `keeper stop`. A copied
    folder gets its own identity.

    Raises:
        ConfigInvalid: The folder's name cannot be used, it is of another format, or one of its locks is not a
        file.
    """
    layout = Layout(path_of(state_dir))
    with contextlib.suppress(OSError):  # reported by `open_state_folder`
        check_format(layout)
    _check_locks(layout)
    check_whole(layout)
    # A copy by hard links holds the original's sockets: no verb may reach the original's keeper through them.
    with contextlib.suppress(OSError):  # as above
        claim_folder(layout, begins=False)
    return layout


def path_of(state_dir: str | None) -> str:
    """Return where the state folder of a verb with or without `--state-dir` is, or would be.

    Raises:
        ConfigInvalid: Its name cannot be used.
    """
    folder = working_folder()
    if has_config_files(os.environ) or "\0" in (state_dir or ""):
        return _settled(state_dir, folder)
    path = state_dir
    if path is None:
        path = os.environ.get(VARIABLE) or default_state_dir(os.environ)
    return absolute_path(path, os.environ, folder)


def _settled(state_dir: str | None, folder: str) -> str:
    """Return the folder by all of the settings' rules: files may name it, and have to be understood."""
    # Start-up time: all settings come with these, and most users have no file.
    from outlive.config import all_options, resolve  # noqa: PLC0415
    from outlive.discovery.config_files import read_config_files  # noqa: PLC0415

    flags = {} if state_dir is None else {"state_dir": state_dir}
    files = read_config_files(os.environ, working_folder=folder, with_project=False)
    wanted = [option for option in all_options() if option.name == "state_dir"]
    return resolve(flags, os.environ, working_folder=folder, files=files, options=wanted).settings.state_dir


def open_state_folder(path: str, *, to_write: bool = True, restores: bool = False) -> Layout:
    """Create the folder if it is missing, make sure that only this user can read it, and return its layout.

    With `to_write` False it may be on a read-only file system: a running server can still be reached there.
    With `restores` a restore into it may have been interrupted.

    Raises:
        ConfigInvalid: `state_folder`: the path is no folder, is another user's, or cannot be written; or one
            of its locks is not a file, or a restore into it was interrupted. `state_format`: it is of another
            format.
    """
    try:
        if not os.path.isdir(path):  # on a frozen disk mkdir(2) waits, although it is there
            os.makedirs(path, mode=_PRIVATE, exist_ok=True)
        found = os.stat(path)
    except (FileExistsError, NotADirectoryError) as error:
        raise unusable(path, f"{error.filename or path} is not a folder") from error
    except OSError as error:
        raise unusable(path, f"it cannot be made ({error.strerror})") from error
    if not stat.S_ISDIR(found.st_mode):
        raise unusable(path, "it is not a folder")
    if found.st_uid != os.geteuid():
        raise unusable(path, f"it belongs to another user (uid {found.st_uid})")
    layout = Layout(path)
    try:
        check_format(layout)  # before anything in it is changed
        if found.st_mode & 0o077:
            # Output and sockets lie here: no other user may read them, whatever mode the folder was created
            # with.
            os.chmod(path, _PRIVATE)
        if to_write and (not os.access(path, os.W_OK | os.X_OK) or _is_read_only(path)):
            raise unusable(path, "it is not writable")
        _check_locks(layout)
        if not restores:
            check_whole(layout)
        claim_folder(layout)
    except OSError as error:
        text = f"the file that says which folder it is cannot be read or written ({error.strerror})"
        raise unusable(path, text) from error
    return layout


def unusable(path: str, reason: str) -> ConfigInvalid:
    """Return the error that says why a state folder cannot be used."""
    return ConfigInvalid("state_folder", f"The state folder {path} cannot be used: {reason}.")


def check_whole(layout: Layout) -> None:
    """Refuse a folder into which a restore was begun and not ended.

    Raises:
        ConfigInvalid: `state_folder`: it is one.
    """
    if os.path.exists(layout.restore_mark):
        raise ConfigInvalid(
            "state_folder",
            f"The state folder {layout.root} is incomplete: a restore into it was interrupted.",
            hint="Restore again: `outlive restore FILE`.",
        )


def _check_locks(layout: Layout) -> None:
    """Refuse a lock path that is not a file: its process could never start, and a caller would wait for it in
    vain.
    """
    locks = (layout.server_lock, layout.supervisor_lock, layout.supervisor_pid, layout.guardian_lock)
    for lock in (*locks, layout.keeper_lock):
        try:
            mode = os.stat(lock).st_mode
        except OSError:
            continue  # a missing lock is fine; one that cannot be examined is reported where it is opened
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "no file"
            raise ConfigInvalid(
                "state_folder",
                f"The state folder {layout.root} cannot be used: {lock} is {kind}, and has to be a file.",
                hint=f"Remove it: the next start makes {os.path.basename(lock)} anew.",
            )


def _is_read_only(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
