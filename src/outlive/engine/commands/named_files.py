"""The files that a command names, as program or argument, and what they hold: `look_at_files`.

A person approves `./check conf`: these words, and what both files held then. So an approval keeps the state
of each file, and a start that needs one looks again (`changed_file`), just before it is asked for. What a
program reads by itself is not named by its words and not looked at. All of this blocks: call it in a thread.
"""

import errno
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence

from outlive.core.errors import StartFailed
from outlive.core.values import dataclass, field
from outlive.engine.commands.resolver import find_program
from outlive.policy.command_reader import Reading
from outlive.policy.patterns import ProgramFile

# A tenth of a second of one processor. A program with everything in it (node, 100 MB) is above it.
_MAX_BYTES = 64 << 20
_MOST = 1000  # names that are looked at: a person does not read more words, and each is kept in the record
_MAX_DEPTH = 5  # of interpreters that are scripts themselves, as the kernel follows (execve(2))
_HEAD_BYTES = 256  # of a script, within which the kernel reads its interpreter (BINPRM_BUF_SIZE)
_PIECE_BYTES = 1 << 20
_MAX_PATH = 4096  # PATH_MAX: a longer word, or the rest of one, is no path
_RUNS = 0o6111  # the bits of a mode that decide whether a file is a program, and as which user
# A file may stand behind any of these within a word: --file=F, @F, a:b, F::test.
_PARTING = re.compile(r"[^\w./+~%-]+")
_EACH_OWN = ("/proc/", "/dev/fd/", "/dev/std")  # another file for each process that opens it


@dataclass(slots=True)
class NamedFiles:
    """What was found.

    `states` are by the names as the command has them; equal states hold the same. `uncertain` says in one
    sentence why they do not say everything (empty: they do). `interpreters` are the names of what runs each
    script that would be started, by the script's name.
    """

    states: dict[str, str] = field(default_factory=dict)
    uncertain: str = ""
    interpreters: dict[str, list[str]] = field(default_factory=dict)


def look_at_files(
    reading: Reading, files: Mapping[str, ProgramFile | None], *, program: str, cwd: str, path: str
) -> NamedFiles:
    """Return the state of each file that a command names.

    Args:
        reading: What the command would start;
        files: and the file to which each first word leads, by the word.
        program: What is executed (the shell of a line).
        cwd: Where it runs;
        path: and where it finds programs.
    """
    look = _Look(cwd)
    look.program(program, path)
    for one in reading.commands:
        name = one.argv[0]
        if one.is_line and not one.is_inner and "/" not in name:
            look.places(name, path)
        if (one.is_line or one.is_inner) and (file := files.get(name)) is not None:
            look.program(name if "/" in name else file.found, path)
        for named in itertools.chain.from_iterable(map(_named, (*one.argv[1:], *one.reads))):
            if not look.add(named):
                break
    # Last: a file that is read as well counts with its content. Of others that changes with each run.
    for named in itertools.chain.from_iterable(one.into for one in reading.commands):
        look.add(named, has_content=False)
    return look.found


def changed_file(states: Mapping[str, str], *, cwd: str) -> str | None:
    """Return the first name whose file is not in the state in which it was found; None: all are."""
    look = _Look(cwd)
    for name, before in states.items():
        look.add(name, has_content=not before.startswith(_WRITTEN))
        if look.found.states.get(name) != before:
            return name
    return None


def _named(word: str) -> Iterator[str]:
    """Yield every part of a word that may name a file."""
    yield word
    if word.startswith("-") and not word.startswith("--"):
        yield word[2:]
    for found in _PARTING.finditer(word):
        if len(word) - found.end() < _MAX_PATH:
            yield word[found.end() :]
    yield from _PARTING.split(word)


# A file that is missing counts as an empty one: `touch made` is the same command when it has run.
_EMPTY = ""
_NOTHING = hashlib.sha256().hexdigest()
_WRITTEN = "written"


class _Look:
    """One look: what was found, and how much may be read yet."""

    def __init__(self, cwd: str) -> None:
        self.found = NamedFiles()
        self._cwd = cwd
        self._real_cwd = os.path.realpath(cwd)
        self._room = _MAX_BYTES

    def places(self, name: str, lookup: str) -> None:
        """Note where a shell would find a program before the one that it finds now, were it there."""
        for folder in lookup.split(":"):
            path = os.path.join(self._cwd, folder, name)
            if os.path.lexists(path):
                return
            if not _is_settled(os.path.dirname(path)):
                self.add(path)

    def program(self, path: str, lookup: str, *, depth: int = 0) -> None:
        """Note a program's file, and what runs it where it is a script."""
        self.add(path)
        if depth == _MAX_DEPTH or not (words := self._interpreter(path)):
            return
        runs = self.found.interpreters.setdefault(path.rpartition("/")[2], [])
        for at, word in enumerate(words):
            if at and (word.startswith("-") or "=" in word):
                continue
            found = word
            if at and "/" not in word:  # what `env` finds
                try:
                    found = find_program(word, path=lookup, cwd=self._cwd)
                except StartFailed:
                    continue
            runs.append(word.rpartition("/")[2])
            self.program(found, lookup, depth=depth + 1)

    def add(self, name: str, *, has_content: bool = True) -> bool:
        """Note the state of what a name leads to; False where that are too many."""
        if name in self.found.states or not name:
            return True
        if len(self.found.states) == _MOST:
            self._doubt("it names more files than are looked at")
            return False
        if (state := self._state(name, has_content=has_content)) is not None:
            self.found.states[name] = state
        return True

    def _doubt(self, why: str) -> None:
        self.found.uncertain = self.found.uncertain or f"{why[0].upper()}{why[1:]}."

    def _interpreter(self, path: str) -> Sequence[str]:
        try:
            fd = _opened(os.path.join(self._cwd, path))
            with open(fd, "rb") as file:
                head = file.read(_HEAD_BYTES)
        except (OSError, ValueError):
            return ()
        return os.fsdecode(head[2:].partition(b"\n")[0]).split() if head.startswith(b"#!") else ()

    def _state(self, name: str, *, has_content: bool) -> str | None:
        path = os.path.join(self._cwd, os.path.expanduser(name))
        if os.path.normpath(path).startswith(_EACH_OWN):
            return "each process's own"
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # a text, and never a file
                return None
            # What this user does not reach its command does not reach either.
            state = _EMPTY if has_content else _WRITTEN
            if isinstance(error, PermissionError):
                state += " out of reach"
            return state + self._led(name, os.path.realpath(path))
        try:
            return self._state_of(name, fd, has_content=has_content)
        finally:
            os.close(fd)

    def _state_of(self, name: str, fd: int, *, has_content: bool) -> str:
        real, found = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            return f"folder {real}"
        if not stat.S_ISREG(found.st_mode):
            if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)) and has_content:
                self._doubt(f"what comes out of {name[:80]!r} is not known: it is a pipe or a socket")
            return f"special {stat.S_IFMT(found.st_mode):o} {found.st_rdev} {real}"
        led = self._led(name, real)
        if not has_content:
            return _WRITTEN + led
        if found.st_mode & _RUNS:
            led = f" {found.st_mode & _RUNS:o}{led}"
        if _is_settled(real):
            return f"settled {real}"
        times = f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
        try:
            digest = self._digest(f"/proc/self/fd/{fd}", found.st_size)
        except OSError:
            self._doubt(f"the file {name[:80]!r} cannot be read")
            return f"unreadable {times}{led}"
        if digest is None:
            self._doubt(f"with {name[:80]!r} its files are larger than {_MAX_BYTES >> 20} MiB")
            return f"large {times}{led}"
        return (_EMPTY if digest == _NOTHING else digest) + led

    def _digest(self, path: str, size: int) -> str | None:
        """Return the SHA-256 of what a file holds; None where that is more than may be read."""
        if size > self._room:
            return None
        digest = hashlib.sha256()
        with open(_opened(path), "rb", buffering=0) as file:
            while piece := file.read(_PIECE_BYTES):
                self._room -= len(piece)
                if self._room < 0:
                    return None
                digest.update(piece)
        return digest.hexdigest()

    def _led(self, name: str, real: str) -> str:
        """Return where a name leads; nothing where it is the file itself."""
        base = name if name.startswith("/") else os.path.join(self._real_cwd, name)
        return "" if os.path.normpath(base) == real else f" {real}"


def _opened(path: str) -> int:
    """Return a regular file, open for reading. Nothing else is opened, not even for a moment: a pipe would
    block, a device may do something.
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise PermissionError(path)
        # O_NONBLOCK: another process may hold a lease on it (fcntl(2), F_SETLEASE).
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(fd)


def _is_settled(real: str) -> bool:
    """Return whether only root may put something else into the place of a file; for root nothing is."""
    if os.geteuid() == 0:
        return False
    while True:
        try:
            if os.stat(real).st_uid != 0 or os.access(real, os.W_OK, effective_ids=True):
                return False
        except OSError:
            return False
        if real == "/":
            return True
        real = os.path.dirname(real)
