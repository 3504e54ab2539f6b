"""What docstrings and comments name in backticks is there: a name that moved sends its reader to nothing."""

import re

from scripts.measure import house

_MODULES = {
    module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for module in house.modules()
}
_PACKAGES = {name.split(".")[0] for name in _MODULES}
# `kernel.state_files`, `core.errors.SLUGS`, `engine.starts`: names below the package.
_DOTTED = re.compile(r"`(?:outlive\.)?([a-z_]+(?:\.\w+)+)(?:\(\))?`")
_FILES = {"server.stopped"}  # of the state folder


def _is_there(name: str) -> bool:
    """Return whether a module has the name, or a module has a definition or a member of it."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        if module in _MODULES:
            rest = parts[count:]
            return not rest or rest[0] in _names_in(module)
    return False


def _names_in(module: str) -> set[str]:
    found = next(
        one
        for one in house.modules()
        if one.name in {f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"}
    )
    return set(re.findall(r"\w+", found.text))


def test_a_module_that_prose_names_is_there() -> None:
    wrong = []
    for module in house.modules():
        for name in _DOTTED.findall(module.prose()):
            first = name.split(".")[0]
            if first in _PACKAGES and name not in _FILES and not _is_there(name):
                wrong.append(f"{module.name}: {name}")
    assert wrong == []
