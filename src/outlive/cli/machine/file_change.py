"""One file that a verb changes for the user: shown as a diff, backed up, replaced in one piece.

Changing one member of a JSON text and nothing else: pure, text in, text out.

The text around the member stays as it is to the byte: order, spacing, line ends, how numbers are written. Comments and
trailing commas are no JSON (RFC 8259) and are refused, not removed.

How others call this very installation: for configuration files that must go on working from any folder.
"""

import contextlib
import difflib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from outlive.core.errors import ConfigInvalid

_MAX_BYTES = 64 << 20  # ~/.claude.json grows with every conversation; beyond this it is something else


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file as it is (`old`, None where it is missing) and as it is to be (`new`, None to remove it)."""

    path: str
    old: str | None
    new: str | None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.old != self.new

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty when there is none."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.old, self.new))
        before = "/dev/null" if self.old is None else self.path
        after = "/dev/null" if self.new is None else self.path
        lines = difflib.unified_diff(old, new, before, after)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )

    def apply(self, *, mode: int) -> str | None:
        """Do it, and return the path of the backup (None for a file that was missing).

        The file keeps its mode and owner, a link stays a link; a new one gets `mode`, less the umask.

        Raises:
            ConfigInvalid: The file changed meanwhile, or cannot be written.
        """
        try:
            if read_text(self.path) != self.old:
                raise ConfigInvalid(
                    "config_invalid",
                    f"{self.path} was changed by another program just now.",
                    hint="Try again.",
                )
            backup = None if self.old is None else _back_up(self.path)
            if self.new is None:
                os.unlink(self.path)
            else:
                _replace(os.path.realpath(self.path), self.new.encode(), mode=mode)
        except UnicodeEncodeError:
            raise ConfigInvalid(
                "config_invalid",
                f"What belongs into {self.path} is no UTF-8 text.",
                hint="Choose another path.",
            ) from None
        except OSError as error:
            raise ConfigInvalid(
                "config_invalid",
                f"{self.path} cannot be written: {error.strerror}.",
                hint="Look at the owner and the mode of the file and its folder.",
            ) from error
        return backup


def read_text(path: str) -> str | None:
    """Return a file's text with its own line ends; None when it is missing.

    Raises:
        ConfigInvalid: It cannot be read, or is no text.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ConfigInvalid("config_invalid", f"{path} is larger than {_MAX_BYTES >> 20} MiB.")
        return raw.decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigInvalid("config_invalid", f"{path} is no UTF-8 text ({error.reason}).") from None
    except OSError as error:
        raise ConfigInvalid("config_invalid", f"{path} cannot be read: {error.strerror}.") from error


def _back_up(path: str) -> str:
    """Copy the file to the first free name of FILE.bak, FILE.bak.1, FILE.bak.2 and so on."""
    number = 0
    while True:
        backup = f"{path}.bak" + (f".{number}" if number else "")
        number += 1
        with contextlib.suppress(FileExistsError):
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as copy, open(path, "rb") as file:
                shutil.copyfileobj(file, copy)
                _take_after(copy.fileno(), os.fstat(file.fileno()))
            return backup


def _replace(path: str, content: bytes, *, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.outlive-{os.getpid()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                _take_after(fd, os.stat(path))
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise


def _take_after(fd: int, old: os.stat_result) -> None:
    """Give a file owner and mode of another one; the owner is only root's to give."""
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, old.st_mode & 0o7777)


_BLANKS = " \t\r\n"
_UNIT = "  "
_DECODER = json.JSONDecoder()


class NotJson(ValueError):
    """The text is no JSON object, or not of the form that can be changed; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    key: str
    before: str  # what stands between the brace or comma and the key
    start: int  # of the key
    value_start: int
    end: int
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    start: int
    end: int
    members: Sequence[_Member]

    def find(self, key: str) -> _Member | None:
        found = [one for one in self.members if one.key == key]
        if len(found) > 1:
            raise NotJson(f"{json.dumps(key)} stands there {len(found)} times")
        return found[0] if found else None


def member(text: str, section: str, name: str) -> object | None:
    """Return the value of `name` in the object `section`; None where there is none.

    Raises:
        NotJson: The text cannot be understood.
    """
    inner = _section(text, _root(text), section)
    found = inner.find(name) if inner else None
    return found.value if found else None


def put_member(text: str, section: str, name: str, *, value: object) -> str:
    """Return the text with `name` in the object `section` set to `value`; a blank text counts as {}.

    Raises:
        NotJson: The text cannot be understood.
    """
    text = text if text.strip() else "{}\n"
    root = _root(text)
    inner = _section(text, root, section)
    style = _Style.of(text, root)
    if inner is None:
        return _insert(text, root, section, value={name: value}, style=style, depth=0)
    found = inner.find(name)
    if found is None:
        return _insert(text, inner, name, value=value, style=style, depth=1)
    if found.value == value:
        return text
    return text[: found.value_start] + style.written(value, found.before) + text[found.end :]


def remove_member(text: str, section: str, name: str) -> str:
    """Return the text without `name` in the object `section`, and without the section once it is empty.

    Raises:
        NotJson: The text cannot be understood.
    """
    if not text.strip():
        return text
    root = _root(text)
    inner = _section(text, root, section)
    if inner is None or inner.find(name) is None:
        return text
    return _cut(text, root, section) if len(inner.members) == 1 else _cut(text, inner, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    """How this text is laid out: `unit` is None where everything stands on one line."""

    newline: str
    unit: str | None

    @classmethod
    def of(cls, text: str, root: _Object) -> "_Style":
        newline = "\r\n" if "\r\n" in text else "\n"
        if not root.members:
            return cls(newline=newline, unit=_UNIT)
        first = root.members[0].before
        return cls(newline=newline, unit=_indent(first) or _UNIT if "\n" in first else None)

    def written(self, value: object, before: str) -> str:
        """Return the value as text, for a key that stands behind `before`."""
        if self.unit is None or "\n" not in before:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.newline + _indent(before)).join(lines)


def _insert(text: str, into: _Object, key: str, *, value: object, style: _Style, depth: int) -> str:
    """Add a member behind the last one, laid out as that is."""
    if into.members:
        last = into.members[-1]
        before = last.before or (" " if len(into.members) == 1 else "")
        written = f"{before}{json.dumps(key, ensure_ascii=False)}: {style.written(value, before)}"
        return f"{text[: last.end]},{written}{text[last.end :]}"
    outer = style.newline + (style.unit or "") * depth
    before, after = ("", "") if style.unit is None else (outer + style.unit, outer)
    written = f"{before}{json.dumps(key, ensure_ascii=False)}: {style.written(value, before)}{after}"
    return f"{text[: into.start]}{{{written}}}{text[into.end :]}"


def _cut(text: str, of: _Object, key: str) -> str:
    position = next(number for number, one in enumerate(of.members) if one.key == key)
    if len(of.members) == 1:
        return f"{text[: of.start]}{{}}{text[of.end :]}"
    gone = of.members[position]
    if position:
        return text[: of.members[position - 1].end] + text[gone.end :]
    return text[: gone.start] + text[of.members[1].start :]


def _indent(before: str) -> str:
    return before.rpartition("\n")[2]


def _root(text: str) -> _Object:
    start = _skip(text, 0)
    root = _scan(text, start)
    if (rest := _skip(text, root.end)) != len(text):
        raise _not_json(text, rest, "something follows the object")
    return root


def _section(text: str, root: _Object, section: str) -> _Object | None:
    found = root.find(section)
    if found is None:
        return None
    if not isinstance(found.value, dict):
        raise NotJson(f"{json.dumps(section)} is no object")
    return _scan(text, found.value_start)


def _scan(text: str, start: int) -> _Object:
    """Return where the members of the object at `start` begin and end."""
    if text[start : start + 1] != "{":
        raise _not_json(text, start, "an object was expected")
    members: list[_Member] = []
    position = start + 1
    while True:
        key_start = _skip(text, position)
        mark = text[key_start : key_start + 1]
        if mark == "}" and not members:
            return _Object(start=start, end=key_start + 1, members=())
        if mark != '"':
            raise _not_json(text, key_start, "a name in double quotes was expected")
        members.append(_scan_member(text, position, key_start))
        position = _skip(text, members[-1].end)
        mark = text[position : position + 1]
        position += 1
        if mark == "}":
            return _Object(start=start, end=position, members=members)
        if mark != ",":
            raise _not_json(text, position - 1, "a comma or a closing brace was expected")


def _scan_member(text: str, before: int, start: int) -> _Member:
    try:
        key, colon = _DECODER.raw_decode(text, start)
        colon = _skip(text, colon)
        if text[colon : colon + 1] != ":":
            raise _not_json(text, colon, "a colon was expected")
        value_start = _skip(text, colon + 1)
        value, end = _DECODER.raw_decode(text, value_start)
    except json.JSONDecodeError as error:
        raise _not_json(text, error.pos, error.msg) from None
    except RecursionError:
        raise _not_json(text, start, "too many objects in each other") from None
    return _Member(
        key=key, before=text[before:start], start=start, value_start=value_start, end=end, value=value
    )


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def _not_json(text: str, position: int, reason: str) -> NotJson:
    line = text.count("\n", 0, position) + 1
    if text[position : position + 2] in {"//", "/*"}:
        reason = "a comment"
    return NotJson(f"line {line}: {reason}")


_COMMAND = "outlive"


def program_words() -> list[str]:
    """Return the words that run `outlive`, the first one absolute.

    As it was called, where that was by its name: a link such as ~/.local/bin/outlive stays right when what it
    points to is installed anew.
    """
    called = os.path.abspath(shutil.which(sys.argv[0]) or sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), _COMMAND)
    for path in (called, beside):
        if os.path.basename(path) == _COMMAND and os.access(path, os.X_OK) and os.path.isfile(path):
            return [path]
    return [sys.executable, "-P", "-m", "outlive"]
