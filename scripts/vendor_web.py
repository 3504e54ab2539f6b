"""Fetch the libraries of the page, and put them into the package: `python -m scripts.vendor_web` (needs npm).

They are committed, so that neither users nor tests need npm. What is written: the files as the packages ship
them, but for imports, which name the file beside them instead of a package (a browser knows no packages, and
the page's policy forbids the map that would tell it), and for the names of maps that are not shipped; the
licences; and `vendor.json`, which says where each file comes from and what its hash is. A test compares.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/outlive/frontends/web/assets/vendor"
MANIFEST = "vendor.json"
_LICENCES = "licences"
_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendoredPackage:
    """One package of npm's: its version, and what is taken of it, as path in the package -> name here."""

    name: str
    version: str
    files: dict[str, str]


PACKAGES = (
    VendoredPackage(
        name="preact",
        version="11.2.0",
        files={"dist/preact.mjs": "preact.mjs", "hooks/dist/hooks.mjs": "hooks.mjs"},
    ),
    VendoredPackage(name="htm", version="3.1.1", files={"dist/htm.mjs": "htm.mjs"}),
    VendoredPackage(
        name="@preact/signals-core", version="1.14.5", files={"dist/signals-core.mjs": "signals-core.mjs"}
    ),
    VendoredPackage(
        name="@xterm/xterm",
        version="6.0.0",
        files={"lib/xterm.mjs": "xterm.mjs", "css/xterm.css": "xterm.css"},
    ),
    VendoredPackage(name="@xterm/addon-fit", version="0.11.0", files={"lib/addon-fit.mjs": "addon-fit.mjs"}),
    VendoredPackage(
        name="@xterm/addon-search", version="0.16.0", files={"lib/addon-search.mjs": "addon-search.mjs"}
    ),
    VendoredPackage(
        name="@xterm/addon-unicode-graphemes",
        version="0.4.0",
        files={"lib/addon-unicode-graphemes.mjs": "addon-unicode-graphemes.mjs"},
    ),
    VendoredPackage(
        name="@xterm/addon-web-links",
        version="0.12.0",
        files={"lib/addon-web-links.mjs": "addon-web-links.mjs"},
    ),
    VendoredPackage(
        name="@xterm/addon-webgl", version="0.19.0", files={"lib/addon-webgl.mjs": "addon-webgl.mjs"}
    ),
    VendoredPackage(
        name="uplot",
        version="1.6.32",
        files={"dist/uPlot.esm.js": "uplot.mjs", "dist/uPlot.min.css": "uplot.css"},
    ),
)
# What packages call each other -> the file that it is here.
_IMPORTS = {"preact": "./preact.mjs"}


def main() -> None:
    """Replace the folder by what the packages hold now."""
    shutil.rmtree(TARGET, ignore_errors=True)
    (TARGET / _LICENCES).mkdir(parents=True)
    entries = []
    with tempfile.TemporaryDirectory() as scratch:
        for package in PACKAGES:
            entries += _vendor(package, Path(scratch))
    (TARGET / MANIFEST).write_text(json.dumps({"files": entries}, indent=1) + "\n")


def _vendor(package: VendoredPackage, scratch: Path) -> list[dict[str, str]]:
    """Fetch one package, and return the manifest's entries of its files."""
    words = ["npm", "pack", "--silent", "--pack-destination", str(scratch)]
    packed = subprocess.run(
        [*words, f"{package.name}@{package.version}"], check=True, capture_output=True, text=True
    )
    folder = scratch / package.name.replace("/", "-")
    with tarfile.open(scratch / packed.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    source = folder / "package"
    told = json.loads((source / "package.json").read_text())
    licence = f"{_LICENCES}/{package.name.replace('/', '-').removeprefix('@')}.txt"
    shutil.copyfile(source / "LICENSE", TARGET / licence)
    entries = []
    for path, name in package.files.items():
        text = _for_browsers((source / path).read_text())
        (TARGET / name).write_text(text)
        entries.append(
            {
                "package": package.name,
                "version": package.version,
                "source": path,
                "file": name,
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "licence": str(told["license"]),
                "licence_file": licence,
            }
        )
    return entries


def _for_browsers(text: str) -> str:
    """Return a module whose imports are files beside it, and which names no map."""
    for known, file in _IMPORTS.items():
        text = re.sub(rf'(from|import)\s*"{re.escape(known)}"', rf'\1"{file}"', text)
    return _MAP.sub("\n", text)


if __name__ == "__main__":
    main()
