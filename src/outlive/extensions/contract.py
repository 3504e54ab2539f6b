"""What an extension brings (`Extension`), and which there are.

Our own stand in a table, and each is a folder here. Others are installed: a module with an `EXTENSION`, which
its package names in the entry-point group `outlive.extensions` (docs/contributing). What one brings is named
as "module:attribute" and imported when it is first needed, so a room that asks what there is waits for
nothing else. What it adds to a server, and what it is given there, is in `server_part`.

Imports `core` only, so every room may ask.
"""

import functools
import importlib
import itertools
import os
import re
import sys
from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

from outlive.core.errors import ConfigInvalid


class Extension(NamedTuple):
    """One extension; every member but the name may be left out.

    Attributes:
        name: In messages.
        options: A dataclass of `config.options.option` fields: settings of the server (`Settings.of`).
        operations: A tuple of `operations.operation.Operation`: over JSON-RPC and REST, carried out by
            `ServerPart.carriers`.
        server: A class derived from `ServerPart`.
        logs: Shows what `outlive logs` without a name is about in this folder: takes its `LogView` and
            `ServerFlags`, returns the exit code, or None if it is about nothing of the extension's.
        listed: Says what `outlive ps` shows beside processes: takes a `Client` and this folder's project,
            returns words behind states, by the processes' ids, and sentences.
        checks: A function that returns lines of `outlive doctor` (`cli.machine.probes.ProbeResult`).
        verbs: Verbs and groups of the command line (`cli.program`), by their title on the help page.
    """

    name: str
    options: str = ""
    operations: str = ""
    server: str = ""
    variables: tuple[str, ...] = ()
    logs: str = ""
    listed: str = ""
    checks: str = ""
    verbs: str = ""


_HERE = "outlive.extensions"
# A folder that is removed takes its extension away, and nothing else.
OWN = (
    Extension(
        name="bridge",
        options=f"{_HERE}.bridge.options:BridgeOptions",
        server=f"{_HERE}.bridge.door:BridgeDoor",
    ),
    Extension(
        name="docker",
        options=f"{_HERE}.docker.options:DockerOptions",
        server=f"{_HERE}.docker.part:DockerPart",
        verbs=f"{_HERE}.docker:VERBS",
    ),
    Extension(
        name="fleet",
        options=f"{_HERE}.fleet.options:FleetOptions",
        variables=("OUTLIVE_NODE_TOKEN_",),
        operations=f"{_HERE}.fleet.operations:OPERATIONS",
        server=f"{_HERE}.fleet.part:FleetPart",
        verbs=f"{_HERE}.fleet:VERBS",
    ),
    Extension(name="hosts", verbs=f"{_HERE}.hosts:VERBS"),
    Extension(
        name="observe",
        variables=("OTEL_",),
        options=f"{_HERE}.observe.options:ObserveOptions",
        server=f"{_HERE}.observe.part:ObservePart",
        checks=f"{_HERE}.observe.telemetry_probe:probe_telemetry",
    ),
    Extension(
        name="ray",
        variables=("RAY_",),
        options=f"{_HERE}.ray.options:RayOptions",
        server=f"{_HERE}.ray.part:RayPart",
    ),
    Extension(
        name="services",
        operations=f"{_HERE}.services.operations:OPERATIONS",
        server=f"{_HERE}.services.part:ServicesPart",
        logs=f"{_HERE}.services.project_file:project_logs",
        listed=f"{_HERE}.services.service_words:listed",
        verbs=f"{_HERE}.services:VERBS",
    ),
)


@functools.cache
def extensions() -> tuple[Extension, ...]:
    """Return all extensions, our own first.

    Raises:
        ConfigInvalid: One cannot be imported.
    """
    folder = os.path.dirname(__file__)
    own = (one for one in OWN if os.path.isdir(f"{folder}/{one.name}"))
    return (*own, *(load(f"{module}:EXTENSION") for module in _installed()))


def own_variables() -> tuple[str, ...]:
    """Return how the variables of extensions begin that are for the server alone, also of those of ours that
    were removed.
    """
    return tuple(itertools.chain.from_iterable(one.variables for one in (*OWN, *extensions())))


def load(where: str) -> Any:  # noqa: ANN401 -- each kind of thing has a type of its own
    """Return what "module:attribute" names.

    Raises:
        ConfigInvalid: It cannot be imported.
    """
    module, _, attribute = where.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigInvalid(
            "config_invalid",
            f"The extension at {where} cannot be loaded: {error}.",
            hint="Upgrade the package that it is from, or uninstall it.",
        ) from error


def check_new(names: Iterable[str], known: Container[str], *, kind: str) -> None:
    """Let the names pass that an extension brings.

    Raises:
        ConfigInvalid: One of them is known already.
    """
    if twice := [name for name in names if name in known]:
        raise ConfigInvalid(
            "config_invalid",
            f"An extension declares the {kind} {twice[0]!r}, which there is already.",
            hint="Uninstall the package that was installed last.",
        )


def _installed() -> Iterator[str]:
    """Yield the modules that installed packages name, in the order of `sys.path`.

    A look at each package's file takes 2 ms of 100 packages; `importlib.metadata` parses them all, in 30.
    """
    for folder in dict.fromkeys(sys.path):
        try:
            found = sorted(name for name in os.listdir(folder) if name.endswith(".dist-info"))
        except OSError:
            continue
        for name in found:
            try:
                with open(f"{folder}/{name}/entry_points.txt", encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            # PyPA, "Entry points specification", file format: INI, a section for each group.
            if section := re.search(r"^\[outlive\.extensions\]\n([^\[]*)", text, re.MULTILINE):
                yield from re.findall(r"^\s*[^\s=#;]+\s*=\s*([\w.]+)", section[1], re.MULTILINE)
