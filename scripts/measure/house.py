"""Count the shape of the house: `python scripts/measure/house.py` prints a table, `--json` an object.

Counts what a reader meets: how much code there is, in the core and in extensions, and how many files know one
fact. The tests hold some of these counts (tests/house/test_measures.py). Files are parsed, and nothing is
run; `--start` adds what one start touches at run time, which `start_trace.py` counts. How many servers a run
of the tests has started is in pytest's summary.
"""

import argparse
import ast
import collections
import io
import json
import re
import runpy
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "outlive"
# Options of a start and verbs on a process whose spread is counted: in how many source files each is spelled
# out.
OPTIONS = ("group_limit", "isolation", "env_secrets", "umask", "max_line_bytes")
VERBS = ("relabel", "close_output", "resize")
# Members of a process, counted in the same way.
MEMBERS = ("output_lost", "lost_bytes")
# Where the parts lie that are to become folders of their own below `extensions`: everything else is the core.
EXTENSIONS: Mapping[str, tuple[str, ...]] = {
    "bridge": ("extensions/bridge/",),
    "copying": ("cli/verbs/cp", "client/files/"),
    "docker": ("extensions/docker/",),
    "fleet": ("client/fleet.py", "extensions/fleet/"),
    "hosts": ("extensions/hosts/",),
    "observe": ("extensions/observe/",),
    "ray": ("extensions/ray/",),
    "services": ("client/services.py", "extensions/services/"),
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
# The pronoun that stands where a noun is meant (style guide, 1).
_WHAT = re.compile(r"\bwhat\b")
# A definition begins at the margin and opens its body before the next margin.
_DEFINITION = re.compile(r"^(\w[\w *]*?)\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
_CALLED = re.compile(r"\b(\w+)\b")
# A comment names functions for the reader, and a string holds words of a protocol: neither calls anything.
_NO_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# Words that end in -ing and are nouns of their own.
_NOUNS = {"string", "ring", "ping", "thing", "setting", "encoding", "timing", "routing"}


@dataclass(frozen=True)
class Module:
    """One Python file of the product, parsed once."""

    path: Path

    @cached_property
    def name(self) -> str:
        """The path below the package, with slashes."""
        return self.path.relative_to(SOURCE).as_posix()

    @cached_property
    def text(self) -> str:
        """The content."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return parsed(self.path)

    @cached_property
    def definitions(self) -> list[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
        """The module itself, its classes and its functions."""
        return [node for node in ast.walk(self.tree) if isinstance(node, _DOCUMENTED)]

    @cached_property
    def docstring_lines(self) -> set[int]:
        """The numbers of the lines that docstrings take."""
        lines: set[int] = set()
        for node in self.definitions:
            if ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        return lines

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens, comments included."""
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))

    @cached_property
    def comment_lines(self) -> set[int]:
        """The numbers of the lines that hold a comment."""
        return {token.start[0] for token in self.tokens if token.type == tokenize.COMMENT}

    @cached_property
    def code_lines(self) -> set[int]:
        """The numbers of the lines that hold code: no blank lines, comments or docstrings."""
        lines: set[int] = set()
        for token in self.tokens:
            if token.type not in _BLANK:
                lines.update(range(token.start[0], token.end[0] + 1))
        return lines - self.docstring_lines

    @cached_property
    def own_comment_lines(self) -> set[int]:
        """The numbers of the lines that hold a comment and nothing else."""
        return self.comment_lines - self.code_lines

    @cached_property
    def code_tokens(self) -> int:
        """How many tokens the code has: longer lines are no fewer of them."""
        return sum(
            token.type not in _BLANK and token.start[0] not in self.docstring_lines for token in self.tokens
        )

    @cached_property
    def extension(self) -> str | None:
        """The extension that the file belongs to; None for the core's."""
        return extension_of(self.name)

    @cached_property
    def imported(self) -> set[str]:
        """The product's modules that this one imports, as paths; a package stands for its `__init__.py`."""
        names: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
        paths = (name.removeprefix("outlive.").replace(".", "/") for name in names if "outlive." in name)
        return {
            found
            for path in paths
            for found in (f"{path}.py", f"{path}/__init__.py")
            if (SOURCE / found).is_file()
        }

    def prose(self) -> str:
        """Return docstrings and comments as one text."""
        docs = [ast.get_docstring(node) or "" for node in self.definitions]
        comments = [token.string for token in self.tokens if token.type == tokenize.COMMENT]
        return "\n".join((*docs, *comments))

    def classes(self) -> Iterator[ast.ClassDef]:
        """Yield every class that the module defines."""
        return (node for node in self.definitions if isinstance(node, ast.ClassDef))


def extension_of(name: str) -> str | None:
    """Return the extension that a path below the package belongs to; None for the core's."""
    return next((one for one, places in EXTENSIONS.items() if name.startswith(places)), None)


def imports_of_extensions(found: Iterable[Module]) -> dict[str, list[str]]:
    """Return for each extension the imports that lead from the core to it, as "importer -> imported"."""
    edges: dict[str, list[str]] = {name: [] for name in EXTENSIONS}
    for module in found:
        if module.extension is None:
            for imported in sorted(module.imported):
                if (extension := extension_of(imported)) is not None:
                    edges[extension].append(f"{module.name} -> {imported}")
    return edges


def packages(lock: Path = ROOT / "requirements" / "runtime.txt") -> list[str]:
    """Return the packages that `pip install outlive` brings to this machine, as the lock names them."""
    lines = (
        line.rstrip(" \\") for line in lock.read_text(encoding="utf-8").splitlines() if line[:1].isalnum()
    )
    wanted = [Requirement(line) for line in lines]
    return [one.name for one in wanted if one.marker is None or one.marker.evaluate()]


def lines_of(folder: Path, *suffixes: str) -> int:
    """Return how many lines the files below a folder have whose names end so.

    Copies of other projects' files do not count.
    """
    return sum(
        path.read_text(encoding="utf-8").count("\n")
        for path in folder.rglob("*")
        if path.suffix in suffixes and not {"vendor", "node_modules", "__pycache__"} & set(path.parts)
    )


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which all who look at it share."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=path.relative_to(ROOT).as_posix())


@cache
def modules() -> tuple[Module, ...]:
    """Return every Python file of the product, by path; each is taken apart once."""
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if "__pycache__" not in path.parts)
    return tuple(Module(path) for path in paths)


def twice_used_names(found: Iterable[Module]) -> dict[str, list[str]]:
    """Return the class names that more than one module defines, with the modules."""
    places: dict[str, list[str]] = collections.defaultdict(list)
    for module in found:
        for node in module.classes():
            places[node.name].append(module.name)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def gerund_modules(found: Iterable[Module]) -> list[str]:
    """Return the modules whose last word ends in -ing and is no noun: a module is named for what it owns."""
    return [
        module.name
        for module in found
        if (word := module.path.stem.split("_")[-1]).endswith("ing") and word not in _NOUNS
    ]


def public_methods(found: Iterable[Module]) -> dict[str, int]:
    """Return for each class how many public methods it has, those of its own base classes included.

    Properties do not count.
    """
    bases: dict[str, list[str]] = {}
    own: dict[str, set[str]] = {}
    for module in found:
        for node in module.classes():
            key = f"{module.name}:{node.name}"
            bases[key] = [base.id for base in node.bases if isinstance(base, ast.Name)]
            own[key] = {child.name for child in node.body if isinstance(child, _FUNCTIONS) and _counts(child)}
    by_name: dict[str, list[str]] = collections.defaultdict(list)
    for key in own:
        by_name[key.rpartition(":")[2]].append(key)

    def chain(key: str) -> set[str]:
        names = set(own[key])
        for base in bases[key]:
            for other in by_name.get(base, ()):
                if other != key:
                    names |= chain(other)
        return names

    return {key: len(chain(key)) for key in own}


def _counts(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    is_read = any(
        (isinstance(mark, ast.Name) and mark.id in {"property", "cached_property"})
        or (isinstance(mark, ast.Attribute) and mark.attr in {"setter", "cached_property"})
        for mark in function.decorator_list
    )
    return not function.name.startswith("_") and not is_read


def constructor_callables(found: Iterable[Module]) -> dict[str, int]:
    """Return for each class how many parameters of its constructor are callables."""
    counted: dict[str, int] = {}
    for module in found:
        for node in module.classes():
            for child in node.body:
                if isinstance(child, _FUNCTIONS) and child.name == "__init__":
                    arguments = (*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs)
                    number = sum(
                        "Callable" in ast.unparse(one.annotation) for one in arguments if one.annotation
                    )
                    counted[f"{module.name}:{node.name}"] = number
    return counted


def knowing(found: Iterable[Module], word: str) -> list[str]:
    """Return the modules whose code spells a word as a whole name or string; prose does not count."""
    return [
        module.name
        for module in found
        if word in module.text  # taking a file apart costs a thousand times as much
        and any(
            (token.type == tokenize.NAME and token.string == word)
            or (token.type == tokenize.STRING and token.string.strip("\"'") == word)
            for token in module.tokens
            if token.start[0] not in module.docstring_lines
        )
    ]


def native_rings(folder: Path = SOURCE) -> list[list[str]]:
    """Return the rings among the C files below a folder, by the functions that each file uses of the others.

    Files are named by their paths without the suffix. Headers say less: one header may declare what several
    files define.
    """
    texts = {
        path.relative_to(folder).with_suffix("").as_posix(): _NO_CODE.sub(
            " ", path.read_text(encoding="utf-8")
        )
        for path in sorted(folder.rglob("*.c"))
    }
    owner = {
        name: file
        for file, text in texts.items()
        for kind, name in _DEFINITION.findall(text)
        if not kind.startswith("static")
    }
    edges = {
        file: {owner[name] for name in _CALLED.findall(text) if owner.get(name, file) != file}
        for file, text in texts.items()
    }
    return _rings(edges)


def _rings(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            ring = []
            while True:
                ring.append(other := stack.pop())
                if other == node:
                    break
            if len(ring) > 1:
                found.append(sorted(ring))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def measure() -> dict[str, object]:
    """Return every count by its name."""
    found = modules()
    core = [module for module in found if module.extension is None]
    methods, callables = public_methods(found), constructor_callables(found)
    lines = sum(module.text.count("\n") for module in found)
    code = sum(len(module.code_lines) for module in found)
    counts: dict[str, object] = {
        "python files of the core": len(core),
        "python files": len(found),
        "code lines of the core": sum(len(module.code_lines) for module in core),
        "code lines": code,
        "code tokens of the core": sum(module.code_tokens for module in core),
        "code tokens": sum(module.code_tokens for module in found),
        "own comment lines in 100": round(100 * sum(len(m.own_comment_lines) for m in found) / lines, 1),
        "`what` in 1000 lines": round(1000 * sum(len(_WHAT.findall(m.text)) for m in found) / lines, 1),
        "lines of C": lines_of(SOURCE, ".c", ".h"),
        "lines of JavaScript": lines_of(SOURCE, ".js", ".mjs"),
        "lines of scripts": lines_of(ROOT / "scripts", ".py", ".sh"),
        "lines of tests in 100 of the product": round(100 * lines_of(ROOT / "tests", ".py") / lines, 1),
        "packages": len(packages()),
        "class names used twice": len(twice_used_names(found)),
        "modules named by a gerund": len(gerund_modules(found)),
        "classes of more than 15 public methods": sum(number > 15 for number in methods.values()),
        "callables handed to constructors": sum(callables.values()),
        "constructors of more than two callables": sum(number > 2 for number in callables.values()),
        "rings in C": len(native_rings()),
    }
    for name, edges in imports_of_extensions(found).items():
        counts[f"imports of {name} by the core"] = len(edges)
    for word in (*OPTIONS, *VERBS, *MEMBERS):
        counts[f"files that know {word}"] = len(knowing(found, word))
    return counts


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--names", action="store_true", help="print what the counts are made of, too")
    parser.add_argument("--start", action="store_true", help="run a server and count what one start touches")
    options = parser.parse_args()
    counts = measure()
    if options.start:
        trace = runpy.run_path(str(Path(__file__).with_name("start_trace.py")))
        counts |= {f"{name} of a start": value for name, value in trace["count"](trace["trace"]()).items()}
    if options.json:
        print(json.dumps(counts, indent=2))  # noqa: T201 -- its output
        return
    for name, value in counts.items():
        print(f"{name:<42} {value}")  # noqa: T201 -- its output
    if options.names:
        found = modules()
        print(json.dumps(twice_used_names(found), indent=1))  # noqa: T201 -- its output
        print(json.dumps(imports_of_extensions(found), indent=1))  # noqa: T201 -- its output
        print("\n".join(gerund_modules(found)))  # noqa: T201 -- its output
        print(native_rings())  # noqa: T201 -- its output


if __name__ == "__main__":
    main()
