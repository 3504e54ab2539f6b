"""Nothing that is tracked names the machine it was written on, or an index that packages came from.

The forbidden strings are put together here, so that this file is clean itself.
"""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.house.sources import ROOT, tracked_files

_MACHINE_PATHS = re.compile(
    r"(?<![\w.~*-])/(?:" + "|".join(["wor" + "k", "far" + "m", "roo" + "t", "hom" + "e"]) + r")/[\w.]"
)
_REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(name + dot_domain)
        for name, dot_domain in [
            ("pypi", ".org"),
            ("pythonhosted", ".org"),
            ("registry.npmjs", ".org"),
            ("registry.yarnpkg", ".com"),
            ("deb.debian", ".org"),
            ("security.debian", ".org"),
            ("proxy.golang", ".org"),
        ]
    )
)
_INDEX_ADDRESS = re.compile(r"https?://|file://|--(?:extra-)?index|--find-links|--trusted-host|(?:^|\s)@\s")
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)")

LOCKS = ["bootstrap", "runtime", "dev", "ray", "token-counter", "agent-peers"]


def _lines_matching(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue  # a picture, not a text
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    return found


def _lock(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.txt"


def _pins(name: str) -> dict[str, Version]:
    matches = (_PINNED.match(line) for line in _lock(name).read_text().splitlines())
    return {canonicalize_name(match["name"]): Version(match["version"]) for match in matches if match}


def test_no_tracked_file_names_a_path_of_a_machine() -> None:
    found = _lines_matching(_MACHINE_PATHS)
    assert not found, "\n".join(found)


def test_no_tracked_file_names_a_package_registry() -> None:
    found = _lines_matching(_REGISTRY_HOSTS)
    assert not found, "\n".join(found)


def test_the_locks_hold_no_address() -> None:
    for name in LOCKS:
        addresses = [line for line in _lock(name).read_text().splitlines() if _INDEX_ADDRESS.search(line)]
        assert addresses == [], f"{name}.txt"


def test_every_locked_package_has_a_hash() -> None:
    for name in LOCKS:
        entries = re.split(r"\n(?=[A-Za-z0-9])", _lock(name).read_text())
        bare = [entry.splitlines()[0] for entry in entries if entry.strip() and "--hash=sha256:" not in entry]
        assert bare == [], f"{name}.txt"


def test_the_locks_agree_with_each_other_and_with_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    # Ray is larger than all of it: only its own tests have it (scripts/ray.sh).
    runtime, dev = _pins("runtime"), {**_pins("ray"), **_pins("dev")}
    assert runtime.items() <= dev.items(), "tests must run what users run"
    wanted = [
        *((Requirement(line), runtime) for line in project["project"]["dependencies"]),
        *((Requirement(line), dev) for line in project["dependency-groups"]["dev"]),
        # What only some users install is tested by all developers.
        *(
            (Requirement(line), dev)
            for lines in project["project"]["optional-dependencies"].values()
            for line in lines
        ),
    ]
    for requirement, pins in wanted:
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not locked: make lock"
        assert requirement.specifier.contains(pinned), f"{requirement} is locked at {pinned}: make lock"
