"""What is copied from where, in words: `FileWord` from "gpu1:/data". Pure."""

import re
from typing import NamedTuple

from outlive.core.errors import InvalidRequest
from outlive.core.file_words import shown_name, wire_name

_PLACE = re.compile(r"[A-Za-z0-9@][A-Za-z0-9_.@-]*")


class FileWord(NamedTuple):
    """A place by its name, None for the machine of the program that reads the word, and a path there as text
    of the wire.
    """

    place: str | None
    path: str

    @property
    def is_inside(self) -> bool:
        """Whether a target says "into this folder": it ends like one."""
        return self.path == "" or self.path.endswith("/") or self.path.rpartition("/")[2] in {".", ".."}

    @property
    def last_name(self) -> str:
        """The name of what is meant; empty where the path does not say it ("..", "/", "")."""
        name = self.path.rstrip("/").rpartition("/")[2]
        return "" if name in {".", ".."} else name

    def below(self, name: str) -> "FileWord":
        """Return what has this name in the folder that is meant."""
        if not name:
            return self._replace(path=f"{self.path.rstrip('/')}/")
        joint = "" if self.path == "" or self.path.endswith("/") else "/"
        return self._replace(path=f"{self.path}{joint}{name}")

    def __str__(self) -> str:
        """Return it as it is written."""
        path = shown_name(self.path)
        return path if self.place is None else f"{self.place}:{path}"


def parse_file_word(word: bytes) -> FileWord:
    """Return what NAME:PATH or PATH means; a file of this machine with a colon in its name is written ./a:b.

    Raises:
        InvalidRequest: It is empty, or has a NUL.
    """
    if not word or b"\0" in word:
        raise InvalidRequest("invalid_params", "A file's name is empty, or has a NUL inside.")
    text = wire_name(word)
    place, colon, path = text.partition(":")
    if colon and _PLACE.fullmatch(place):
        return FileWord(place, path)
    return FileWord(None, text)


def target_of(source: FileWord, target: FileWord, *, is_folder: bool) -> FileWord:
    """Return what the copy is called: the target itself, or what is in it, by the words alone, so that it is
    the same every time.

    A target that ends like a folder ("out/", ".", "gpu1:") takes the source inside under the source's name.
    Of a source folder that ends in a slash it takes the content.

    Raises:
        InvalidRequest: The source has no name of its own.
    """
    if not target.is_inside or (is_folder and source.path.endswith("/")):
        return target
    if not source.last_name:
        if is_folder:
            return target
        raise InvalidRequest("invalid_params", f"{source} has no name that its copy could have.")
    return target.below(source.last_name)
