"""What is kept of nodes that were added, invited or drained at run time: a file `node` in each node's folder,
for its owner only.

Blocking: run it in a thread. Which processes of a node are followed stands beside it
(`store.process_folder`).
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from outlive.core.documents import decode_json
from outlive.core.layout import Layout
from outlive.core.needs import Amounts
from outlive.core.values import asdict, dataclass, field, replace
from outlive.kernel.files import read_all, write_whole
from outlive.placement.fleet import FleetNode
from outlive.protocols.frames import decoded

_FILE = "node"
_Fit = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInvitation:
    """A code that lets one machine join, by its hash; `expires_s` is seconds since the epoch.

    `gave` is the hash of the credential that a machine was given for it. Once that one is shown, the code is
    used up.
    """

    digest: str
    expires_s: float
    gave: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """A node as its operator declares it.

    Without a `url` a setting says where it is, and this only what was changed of it.

    `cpu`, `memory` (bytes) and `gpu` are at most so much of what it has; None: all of it. `token` is a
    secret. `dials_in`: it has no address, and connects by itself; it shows one of `credentials` (hashes: the
    one that it has, and the one that it was given but may not have kept yet), or the code of the
    `invitation`. `own_labels` are those that it gave itself when it connected last, `labels` the operator's,
    which come first. `is_found`: it has said itself where it is, and may say so anew.
    """

    name: str
    url: str = ""
    dials_in: bool = False
    credentials: tuple[str, ...] = ()
    invitation: KeptInvitation | None = None
    token: str = field(default="", repr=False)
    ca: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    own_labels: Mapping[str, str] = field(default_factory=dict)
    cpu: float | None = None
    memory: int | None = None
    gpu: float | None = None
    is_draining: bool = False
    is_found: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether it says how the node is reached, by an address or by a connection of its own."""
        return bool(self.url) or self.dials_in

    def applied(self, node: FleetNode) -> FleetNode:
        """Return a node as it describes itself with what is declared of it: fewer amounts, more labels."""
        has = node.capacity
        said = {**self.own_labels, **self.labels}  # the operator's win
        most = Amounts.of(cpu=self.cpu or 0, memory_bytes=self.memory or 0, gpu=self.gpu or 0)
        return replace(
            node,
            capacity=Amounts(
                cpu_milli=has.cpu_milli if self.cpu is None else min(has.cpu_milli, most.cpu_milli),
                memory_bytes=has.memory_bytes
                if self.memory is None
                else min(has.memory_bytes, most.memory_bytes),
                gpu_milli=has.gpu_milli if self.gpu is None else min(has.gpu_milli, most.gpu_milli),
            ),
            labels=frozenset(one for one in node.labels if one[0] not in said) | frozenset(said.items()),
            is_open=node.is_open and not self.is_draining,
        )


def _write_once(write: Callable[[], None]) -> None:
    write()


class NodeFiles:
    """The nodes' folders of a state folder; one writer, the server."""

    def __init__(self, layout: Layout, *, fit: _Fit = _write_once) -> None:
        """Read nothing yet. `fit` calls its argument, and makes room for it on a full disk."""
        self._folder = layout.nodes
        self._fit = fit

    def read(self) -> list[NodeEntry]:
        """Return what is declared; a damaged file counts as none, and is left alone."""
        with contextlib.suppress(FileNotFoundError):
            found = (self._read(name) for name in sorted(os.listdir(self._folder)))
            return [entry for entry in found if entry is not None]
        return []

    def put(self, entry: NodeEntry) -> None:
        """Keep a node's entry, whole; raises OSError when the disk refuses it."""
        members = {
            "url": entry.url,
            "token": entry.token,
            "ca": entry.ca,
            "labels": dict(entry.labels),
            "own_labels": dict(entry.own_labels),
            "cpu": entry.cpu,
            "memory": entry.memory,
            "gpu": entry.gpu,
            "draining": entry.is_draining,
            "dials_in": entry.dials_in,
            "credentials": list(entry.credentials),
            "invitation": None if entry.invitation is None else asdict(entry.invitation),
            "found": entry.is_found,
        }
        kept = {name: value for name, value in members.items() if value}
        if not kept:  # nothing is said of it any more: a setting's node, or this machine, as it was before
            self.remove(entry.name)
            return
        folder = f"{self._folder}/{entry.name}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        content = json.dumps(kept).encode()
        self._fit(lambda: write_whole(f"{folder}/{_FILE}", content, survives="power cut"))

    def remove(self, name: str) -> None:
        """Forget a node's entry; one that is not there is a success.

        Its folder goes with it where nothing is followed there.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._folder}/{name}/{_FILE}")
        for folder in (f"{self._folder}/{name}/live", f"{self._folder}/{name}"):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _read(self, name: str) -> NodeEntry | None:
        return decoded(read_all(f"{self._folder}/{name}/{_FILE}"), lambda raw: _entry(name, decode_json(raw)))


def _entry(name: str, kept: dict[str, Any]) -> NodeEntry:
    code = kept.get("invitation")
    return NodeEntry(
        name=name,
        url=str(kept.get("url", "")),
        dials_in=bool(kept.get("dials_in")),
        credentials=tuple(str(one) for one in kept.get("credentials", ())),
        invitation=None if code is None else KeptInvitation(**code),
        token=str(kept.get("token", "")),
        ca=str(kept.get("ca", "")),
        labels=_words(kept.get("labels", {})),
        own_labels=_words(kept.get("own_labels", {})),
        cpu=kept.get("cpu"),
        memory=kept.get("memory"),
        gpu=kept.get("gpu"),
        is_draining=bool(kept.get("draining")),
        is_found=bool(kept.get("found")),
    )


def _words(members: Mapping[object, object]) -> dict[str, str]:
    return {str(name): str(value) for name, value in members.items()}
