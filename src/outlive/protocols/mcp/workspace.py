"""What a workspace's shell leaves behind: `WorkspaceState`, read from the bytes that `workspace.bash` writes.

The bytes: the folder and a newline, then NAME=VALUE for each exported variable, each followed by a NUL; then "end".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_END = b"end"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# execve(2): MAX_ARG_STRLEN with the final NUL. A longer variable reaches no program, from no shell.
_MAX_WORD_BYTES = 131_071
# Of each shell and each terminal anew: how deep it is, the last word, the folder, the window.
_OWN = frozenset({"SHLVL", "_", "PWD", "TERM", "LINES", "COLUMNS"})
_OURS = "OUTLIVE_"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceState:
    """A folder, as the shell called it (`pwd -L`), and the variables to begin with there."""

    cwd: str
    variables: Mapping[str, str]

    def environment(self, base_names: Iterable[str]) -> dict[str, str | None]:
        """Return what turns an environment of `base_names` into this one; None removes a name."""
        removed = {name: None for name in base_names if _is_carried(name) and name not in self.variables}
        return {**removed, **self.variables}


def parse_state(data: bytes) -> WorkspaceState | None:
    """Return the state; None when the bytes are torn or of something else. Never raises."""
    folder, *words = data.split(b"\0")
    if not words or words.pop() != _END or not (folder.startswith(b"/") and folder.endswith(b"\n")):
        return None
    variables: dict[str, str] = {}
    for word in words:
        name, separator, value = word.decode("utf-8", "surrogateescape").partition("=")
        if not separator or not _NAME.fullmatch(name):
            return None
        if _is_carried(name) and len(word) < _MAX_WORD_BYTES:
            variables[name] = value
    return WorkspaceState(cwd=folder[:-1].decode("utf-8", "surrogateescape"), variables=variables)


def _is_carried(name: str) -> bool:
    return name not in _OWN and not name.startswith(_OURS) and _NAME.fullmatch(name) is not None
