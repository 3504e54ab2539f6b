"""What the house tests look at: the tracked files of this checkout and their syntax trees.

Reads files only; which rule holds is each test's own matter.
"""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from scripts.measure import house

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file, parsed when first asked for."""

    path: Path

    @property
    def name(self) -> str:
        """The path as a reader of a failure wants it: relative, with slashes."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        """The file's content."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree."""
        return house.parsed(self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Everything in the syntax tree, in the order of `ast.walk`."""
        return tuple(ast.walk(self.tree))


def python_sources(*folders: str) -> Iterator[Source]:
    """Yield every Python file below the folders, tracked or not: a new file has the house's shape too."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "__pycache__" not in path.parts:
                yield _source_at(path)


@cache
def _source_at(path: Path) -> Source:
    """Return the one `Source` of a file: several tests look at each."""
    return Source(path)


def tracked_files() -> list[Path]:
    """Return every file git tracks; in an unpacked archive without git, every file but hidden folders'."""
    if (ROOT / ".git").exists():
        # A checkout may belong to another uid than the test's: say that this one is fine to read.
        listed = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        return [
            path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()
        ]
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(ROOT).parts[:-1])
    ]
