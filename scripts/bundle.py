"""Build what one-click hosts and the MCP registry take: an .mcpb bundle and `server.json`, into a folder.

Neither holds outlive itself: the bundle's launcher runs the one that is installed, or has uv fetch it
(decision 176). So the bundle is the same for every machine, and no path of the building one is in it.

    python -m scripts.bundle --namespace io.github.NAME [--bundle-url URL] [--into dist]

Sources: github.com/modelcontextprotocol/mcpb MANIFEST.md, version 0.3; the registry's server.schema.json of
2025-12-11.
"""

import argparse
import hashlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from outlive import __version__
from outlive.cli.program import PROGRAM
from outlive.frontends.mcp.tools.table import TOOL_SETS

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_TOOLS = ("--mcp-tools", "lean")
_LAUNCHER = "server/outlive.sh"
# Programs with windows are seldom started with the PATH of a shell: the folders of pipx, uv and Homebrew are
# looked into.
_SCRIPT = """#!/bin/sh
# Runs the outlive of this machine as an MCP server, or has uv fetch it.
PATH="${PATH:-/usr/bin:/bin}:${HOME:-/nonexistent}/.local/bin:${HOME:-/nonexistent}/.cargo/bin:/usr/local/bin"
export PATH
if command -v outlive >/dev/null 2>&1; then exec outlive mcp "$@"; fi
if command -v uvx >/dev/null 2>&1; then exec uvx outlive mcp "$@"; fi
echo "outlive is not installed: pipx install outlive, or uv tool install outlive" >&2
exit 127
"""
# The oldest time that a zip archive can hold: the same sources make the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)
_NAMESPACE = re.compile(r"[a-zA-Z0-9.-]+")


def manifest() -> Mapping[str, object]:
    """Return the bundle's manifest."""
    return {
        "manifest_version": "0.3",
        "name": PROGRAM.name,
        "version": __version__,
        "description": PROGRAM.about,
        "author": {"name": "The outlive authors"},
        "license": "MIT",
        "keywords": ["shell", "terminal", "process", "agents"],
        "server": {
            "type": "binary",
            "entry_point": _LAUNCHER,
            "mcp_config": {"command": "/bin/sh", "args": [f"${{__dirname}}/{_LAUNCHER}", *_TOOLS]},
        },
        "tools": [
            {"name": tool.name, "description": tool.description.partition("\n")[0]}
            for tool in TOOL_SETS["lean"]
        ],
        "compatibility": {"platforms": ["linux"]},
    }


def bundle() -> bytes:
    """Return the .mcpb archive: the manifest and the launcher."""
    stream = io.BytesIO()
    files = {"manifest.json": json.dumps(manifest(), indent=2) + "\n", _LAUNCHER: _SCRIPT}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = (0o755 if name == _LAUNCHER else 0o644) << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def server_json(namespace: str, *, bundle_url: str | None, bundle_bytes: bytes) -> Mapping[str, object]:
    """Return the registry's document: outlive from PyPI by uvx, and the bundle where it is published."""
    flag, tools = _TOOLS
    packages: list[Mapping[str, object]] = [
        {
            "registryType": "pypi",
            "identifier": PROGRAM.name,
            "version": __version__,
            "runtimeHint": "uvx",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "positional", "value": "mcp"},
                {"type": "named", "name": flag, "value": tools},
            ],
        }
    ]
    if bundle_url is not None:
        digest = hashlib.sha256(bundle_bytes).hexdigest()
        packages.append(
            {
                "registryType": "mcpb",
                "identifier": bundle_url,
                "version": __version__,
                "fileSha256": digest,
                "transport": {"type": "stdio"},
            }
        )
    return {
        "$schema": _SCHEMA,
        "name": f"{namespace}/{PROGRAM.name}",
        "description": PROGRAM.about,
        "version": __version__,
        "packages": packages,
    }


def main() -> None:
    """Write both files and print their paths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--namespace", required=True, help="whose server it is in the registry: io.github.NAME"
    )
    parser.add_argument("--bundle-url", help="where the bundle will be published")
    parser.add_argument("--into", type=Path, default=Path("dist"), help="the folder (dist)")
    asked = parser.parse_args()
    if not _NAMESPACE.fullmatch(asked.namespace):
        parser.error("a namespace has letters, digits, dots and dashes: io.github.NAME")
    asked.into.mkdir(parents=True, exist_ok=True)
    archive = bundle()
    paths = (asked.into / f"{PROGRAM.name}-{__version__}.mcpb", asked.into / "server.json")
    paths[0].write_bytes(archive)
    document = server_json(asked.namespace, bundle_url=asked.bundle_url, bundle_bytes=archive)
    paths[1].write_text(json.dumps(document, indent=2) + "\n")
    for path in paths:
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
