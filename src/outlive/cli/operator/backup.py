"""`outlive backup` and `outlive restore`: a state folder as one file, made while everything runs, and put
into a folder again.

Both work on the files, ask no server and start none. What an archive holds is decided by `store.backup`, and
how a folder becomes what one holds by `discovery.restoration`.
"""

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import BinaryIO, cast

from outlive import __version__
from outlive.cli.output import Answer, byte_stdout
from outlive.cli.parameters import DRY_RUN, JSON, STATE_DIR, place, switch, takes
from outlive.cli.progress import progress
from outlive.cli.tables import shown_size
from outlive.core.errors import ConfigInvalid, InvalidRequest, LimitExceeded
from outlive.discovery.restoration import restore as restored
from outlive.discovery.state_folder import layout_of, open_state_folder, path_of
from outlive.files.documents import NamedStream
from outlive.kernel.disk import FULL
from outlive.kernel.files import sync_folder
from outlive.kernel.state_files import read_journal
from outlive.store.backup.backup_reader import read_backup
from outlive.store.backup.backup_writer import count_processes, write_backup
from outlive.store.backup.contents import Contents

_STANDARD = "-"
_NOT_IN_IT = "Not in it: sockets, locks, the server's and the keeper's logs, containers"
_OF_KEYS = "keys, tokens and the audit log (--without-keys)"


@takes(
    place("file", "FILE", about="Where the archive goes; - is stdout."),
    switch(
        "--without-keys",
        about="Leave out keys, the tokens' hashes and the audit log, which one of the keys is for.",
    ),
    switch("--replace", about="Replace a file that is there."),
    STATE_DIR,
    JSON,
    more=(
        "The archive (tar.gz, mode 0600) holds output, commands, queue, services, tokens and audit log. "
        "It is as secret as they are: "
        "output may hold what commands have printed of passwords.\n"
        "FILE is there whole, or as it was before."
    ),
)
def backup(*, file: str, without_keys: bool, replace: bool, state_dir: str | None, as_json: bool) -> Answer:
    """Write the archive.

    Raises:
        ConfigInvalid: `state_folder`: there is no such folder.
        InvalidRequest: The file is there, or cannot be written, or stdout is a terminal.
        LimitExceeded: `disk_full`: there is no room for it.
    """
    layout = layout_of(state_dir)
    if not os.path.isdir(layout.root):
        raise ConfigInvalid("state_folder", f"There is no state folder {layout.root}: nothing has run there.")
    if file == _STANDARD and as_json:
        raise InvalidRequest("invalid_params", "Stdout takes the archive or the JSON, not both.")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    def write(into: BinaryIO) -> Contents:
        with progress("backing up", count_processes(layout)) as one_more:
            return write_backup(
                layout,
                into,
                live=read_journal(layout.live),
                outlive=__version__,
                created=now,
                with_keys=not without_keys,
                one_more=one_more,
            )

    try:
        contents, size = _to_stdout(write) if file == _STANDARD else _to_file(file, write, replace=replace)
    except OSError as error:
        if error.errno in FULL:
            text = f"There is no room for the backup; {file} is as it was."
            raise LimitExceeded("disk_full", text, hint="Write it to another disk.") from error
        text = f"The backup cannot be written: {error.strerror or type(error).__name__}."
        raise InvalidRequest(
            "invalid_params", text, hint="Name another file, in a folder of yours."
        ) from error
    said = [
        f"{_counted(contents)}, {shown_size(size)} packed.",
        f"{_NOT_IN_IT}{f', {_OF_KEYS}' if without_keys else ''}.",
    ]
    return Answer({"file": os.path.abspath(file), "bytes": size, **_facts(contents)}, said=said)


@takes(
    place("file", "FILE", about="The archive; - is stdin."),
    switch("--replace", about="Remove what the state folder holds."),
    DRY_RUN._replace(about="Check the archive and say what is in it; change nothing."),
    STATE_DIR,
    JSON,
    more=(
        "No server and no keeper may live in the state folder, and nothing may lie there without "
        "--replace. Files become yours. What ran "
        "when the backup was made is lost: a restore starts nothing, no service and nothing that waited.\n"
        "Tokens that were revoked since count again. Restore what you trust: an archive decides who is "
        "let in."
    ),
)
def restore(*, file: str, replace: bool, dry_run: bool, state_dir: str | None) -> Answer:
    """Put an archive into a state folder.

    Raises:
        ConfigInvalid: `server_running` or `state_folder`: the folder is in use, or something would be lost.
        InvalidRequest: The archive cannot be opened.
        StoreCorrupt: It is no whole backup.
        LimitExceeded: `disk_full`: it does not fit.
    """
    root = path_of(state_dir)
    with _opened(file) as source:
        if dry_run:
            contents = read_backup(source, into=None)
        else:
            contents = restored(open_state_folder(root, restores=True), source, replaces=replace)
    made = f"Made at {contents.created} by outlive {contents.outlive}"
    lines = [f"{made}: {_counted(contents)}, {'keys' if contents.has_keys else 'no keys'}."]
    if dry_run:
        lines.append("The archive is whole.")
    else:
        lines.append(f"Restored into {root}. The next command starts a server there.")
        if contents.running:
            lost = f"What ran then is lost: {contents.running} of the processes."
            lines.append(f"{lost} Nothing is started again by itself.")
        if contents.has_keys:
            lines.append("Tokens are those of then: `outlive token list`.")
    return Answer({"state_dir": root, "dry_run": dry_run, **_facts(contents)}, lines)


def _to_stdout(write: Callable[[BinaryIO], Contents]) -> tuple[Contents, int]:
    stdout = byte_stdout()
    if stdout is None:
        text = "Stdout is a terminal: an archive is nothing to look at."
        raise InvalidRequest("invalid_params", text, hint="`outlive backup FILE`, or a pipe behind it.")
    counting = _Counting(stdout)
    try:
        contents = write(counting)  # type: ignore[arg-type]  # gzip needs `write` and `flush` only
        counting.flush()
    except BrokenPipeError as error:
        text = "The reader of the backup has left: what it got is not whole."
        raise InvalidRequest("invalid_params", text, hint="Look at the program behind the pipe.") from error
    return contents, counting.count


class _Counting:
    """Passes on what is written, and counts it."""

    def __init__(self, into: BinaryIO) -> None:
        self._into = into
        self.count = 0

    def write(self, data: bytes) -> int:
        self.count += len(data)
        return self._into.write(data)

    def flush(self) -> None:
        self._into.flush()


def _to_file(file: str, write: Callable[[BinaryIO], Contents], *, replace: bool) -> tuple[Contents, int]:
    """Write to a file beside, which gets the name once everything is on the disk (mode 0600 from its first
    byte on).
    """
    path = os.path.abspath(file)
    if os.path.isdir(path):
        raise InvalidRequest("invalid_params", f"{file} is a folder.", hint="Name a file in it.")
    if os.path.lexists(path) and not replace:
        raise InvalidRequest("invalid_params", f"{file} is there.", hint="--replace replaces it.")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise InvalidRequest("invalid_params", f"{file} is no file.", hint="- writes to stdout.")
    folder, name = os.path.split(path)
    # Beside the file, since a name can only be given within a file system; SIGKILL leaves this one, which no
    # reader takes for a backup.
    fd, new = tempfile.mkstemp(prefix=f".{name[:200]}.", suffix=".part", dir=folder)
    try:
        with open(fd, "wb") as into:
            contents = write(into)
            into.flush()
            os.fsync(into.fileno())
            size = into.tell()
        if replace:
            os.rename(new, path)
        else:
            # A name that was taken meanwhile is not replaced: link(2) fails where rename(2) would not.
            os.link(new, path)
            os.unlink(new)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    sync_folder(folder)
    return contents, size


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == _STANDARD:
        if sys.stdin is None or sys.stdin.isatty():
            text = "Stdin is a terminal, and no archive."
            raise InvalidRequest("invalid_params", text, hint="`outlive restore FILE`.")
        yield sys.stdin.buffer
        return
    try:
        opened = NamedStream(file)
    except OSError as error:
        text = f"{file} cannot be read: {error.strerror}."
        raise InvalidRequest("invalid_params", text, hint="Name an archive of `outlive backup`.") from error
    with contextlib.closing(opened):
        yield cast("BinaryIO", opened)  # gzip needs `read` only


def _facts(contents: Contents) -> dict[str, object]:
    return {
        "created": contents.created,
        "outlive": contents.outlive,
        "processes": contents.processes,
        "running": contents.running,
        "output_bytes": contents.output_bytes,
        "files": contents.files,
        "keys": contents.has_keys,
    }


def _counted(contents: Contents) -> str:
    processes = "1 process" if contents.processes == 1 else f"{contents.processes} processes"
    runs = f" ({contents.running} ran)" if contents.running else ""
    return f"{processes}{runs}, {shown_size(contents.output_bytes)} of output"
