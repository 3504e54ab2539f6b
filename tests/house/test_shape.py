"""The house style's measures: how many methods a class has, how things are named, which names a module shows.

Docstrings, `global`, boolean arguments and imports inside functions are ruff's to check.
"""

import ast

from tests.house.sources import python_sources

# A module is named for the one noun it owns; these name none.
VAGUE_WORDS = frozenset({"common", "data", "helper", "helpers", "manager", "misc", "util", "utils"})

_EVERYWHERE = list(python_sources("src", "tests", "bench"))
_PRODUCT = list(python_sources("src"))
_OWN_PACKAGES = frozenset({"bench", "outlive", "tests"})


def _exported(tree: ast.Module) -> list[str] | None:
    """Return `__all__` as written, or None where there is none."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
                return list(ast.literal_eval(value))
    return None


def test_names_say_something() -> None:
    modules = [
        source.name
        for source in _EVERYWHERE
        if VAGUE_WORDS.intersection(source.path.stem.split("_"))
        or source.path.parent.name
        in VAGUE_WORDS - {"common"}  # of the four programs in `keeper` and in `native`
    ]
    classes = [
        f"{source.name}: {node.name}"
        for source in _EVERYWHERE
        for node in source.nodes
        if isinstance(node, ast.ClassDef) and node.name.lower().endswith(tuple(VAGUE_WORDS - {"data"}))
    ]
    assert not modules + classes, "\n".join(modules + classes)


def test_nobody_imports_a_private_name() -> None:
    private = [
        f"{source.name}:{node.lineno}: {alias.name}"
        for source in _EVERYWHERE
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _OWN_PACKAGES
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__")
    ]
    assert not private, "\n".join(private)


def test_only_a_package_that_gives_names_of_its_parts_lists_them() -> None:
    """Elsewhere a leading `_` says what is private."""
    listed = [
        source.name
        for source in _EVERYWHERE
        if _exported(source.tree) is not None
        and source.path.name not in {"__init__.py", "uvicorn_parts.py", "values.py"}
    ]
    empty = [source.name for source in _EVERYWHERE if _exported(source.tree) == []]
    assert not listed + empty, "\n".join(listed + empty)


# The one that hides no module of ours: what mypy is to take a decorator for.
_SHOWN_TO_MYPY = ("src/outlive/core/values.py", ["from dataclasses import dataclass"])


def test_no_import_hides_behind_type_checking() -> None:
    """Two modules that need each other lack a third, lower one."""
    hidden = [
        f"{source.name}:{node.lineno}"
        for source in _PRODUCT
        for node in source.nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if (source.name, [*map(ast.unparse, node.body)]) != _SHOWN_TO_MYPY
    ]
    assert not hidden, "\n".join(hidden)


def test_the_measured_folders_are_not_empty() -> None:
    """A wrong path would make every test above pass by looking at nothing."""
    assert any(source.name == "src/outlive/__init__.py" for source in _PRODUCT)
    assert any(source.name == "tests/house/test_shape.py" for source in _EVERYWHERE)
