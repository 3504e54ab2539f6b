"""The libraries of the page are what their packages hold, with their licences, and load nothing from
elsewhere.
"""

import hashlib
import json
import re

import pytest

from scripts.vendor_web import MANIFEST, PACKAGES, TARGET

_ENTRIES = json.loads((TARGET / MANIFEST).read_text())["files"]
_IMPORT = re.compile(r"""\bfrom\s*["']([^"'\n]+)["']|\bimport\s*\(?\s*["']([^"'\n]+)["']""")


@pytest.mark.parametrize("entry", _ENTRIES, ids=lambda entry: entry["file"])
def test_each_file_is_the_one_that_was_fetched_and_has_a_licence(entry: dict[str, str]) -> None:
    content = (TARGET / entry["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    assert entry["licence"] in {"MIT", "Apache-2.0"}
    assert "ermission" in (TARGET / entry["licence_file"]).read_text()
    assert b"sourceMappingURL" not in content
    for found in _IMPORT.finditer(content.decode()):
        name = found[1] or found[2]
        assert name.startswith("./"), "a browser knows no packages"
        assert (TARGET / name).is_file()


def test_nothing_lies_there_that_the_manifest_does_not_name() -> None:
    told = {entry[member] for entry in _ENTRIES for member in ("file", "licence_file")}
    there = {path.relative_to(TARGET).as_posix() for path in TARGET.rglob("*") if path.is_file()}
    assert there == told | {MANIFEST}
    wanted = {(one.name, one.version, source) for one in PACKAGES for source in one.files}
    assert {(entry["package"], entry["version"], entry["source"]) for entry in _ENTRIES} == wanted
