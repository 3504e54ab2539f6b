"""Imports point down, siblings stay strangers, and what outlives the server carries no third-party code.

The contracts are in pyproject.toml; this file runs them and adds what they cannot say: the keeper's
imports as an allow list, and no circles anywhere.
"""

import copy
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata

import grimp

from tests.house.sources import ROOT

# May the left import the right? A keeper that lives for months is upgraded last, so it knows the least.
_BARE = ("outlive.core", "outlive.protocols.frames", "outlive.protocols.keeper")
_ALLOWED = {
    "outlive.core": ("outlive.core",),
    "outlive.protocols.frames": _BARE,
    "outlive.protocols.keeper": _BARE,
    "outlive.kernel": ("outlive.kernel", *_BARE),
    "outlive.keeper": ("outlive.keeper", "outlive.kernel", *_BARE),
}
# The package's own __init__ holds the version and imports nothing.
_ALWAYS = ("outlive", "outlive.protocols")

_OF_EXTRAS = ("opentelemetry", "ray", "requests")


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("outlive", include_external_packages=True, cache_dir=None)


def _is_within(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def test_import_contracts_are_kept() -> None:
    # In a process of its own: it configures logging, and disables every logger that there is.
    code = (
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, "
        "no_logo=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_outlives_the_server_imports_only_what_it_may() -> None:
    graph = _graph()
    strangers = [
        f"{module} imports {imported}"
        for package, allowed in _ALLOWED.items()
        for module in sorted(graph.modules)
        if _is_within(module, [package])
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if imported not in sys.stdlib_module_names
        and imported not in _ALWAYS
        and not _is_within(imported, allowed)
    ]
    assert not strangers, "\n".join(strangers)


def test_every_package_that_is_imported_is_one_that_a_user_has() -> None:
    """A package of the development group would be missing in an installation."""
    lock = (ROOT / "requirements" / "runtime.txt").read_text()
    locked = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    packages = metadata.packages_distributions()
    missing = {
        module
        for module in _graph().modules
        if "." not in module and module not in {"outlive", *_OF_EXTRAS, *sys.stdlib_module_names}
        if not locked & {name.lower().replace("_", "-") for name in packages.get(module, ())}
    }
    assert missing == set()


def test_no_two_modules_import_each_other_however_far_around() -> None:
    graph = _graph()
    circles = [
        " -> ".join([importer, *chain])
        for importer in sorted(graph.modules)
        for imported in sorted(graph.find_modules_directly_imported_by(importer))
        if (chain := graph.find_shortest_chain(importer=imported, imported=importer))
    ]
    assert not circles, "\n".join(circles)


def test_no_two_packages_import_each_other() -> None:
    graph = copy.deepcopy(_graph())
    for module in ("contract", "server_part"):  # they know no extension, and stand below what asks for them
        graph.remove_module(f"outlive.extensions.{module}")
    circles = {
        package: breakers
        for package in sorted(graph.modules)
        if package.split(".")[0] == "outlive" and (breakers := graph.nominate_cycle_breakers(package))
    }
    assert circles == {}


def test_every_frontend_is_named_in_the_siblings_contract() -> None:
    """The contract lists frontends that may not exist yet, so it cannot be exhaustive by itself."""
    contract = (ROOT / "pyproject.toml").read_text()
    if "outlive.frontends" in _graph().modules:
        unnamed = [
            name for name in _graph().find_children("outlive.frontends") if f"({name})" not in contract
        ]
        assert unnamed == []
