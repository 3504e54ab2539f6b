"""What is kept of projects' services: `KeptStack`, a file each, and the mark that a server is wanted.

Blocking: run it in a thread.

A file is replaced whole before anything that it tells of is done, so the next server goes on exactly there.
It holds what callers have declared, and of their environment only what they have sent to be kept: 0600, no
secrets (decision 195).
"""

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Callable

import msgspec

from outlive.core.documents import checked_json
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.extensions.services.machine import ServiceState
from outlive.kernel.files import read_any, write_whole

_logger = logging.getLogger(__name__)
_SUFFIX = ".json"


class KeptStack(msgspec.Struct, kw_only=True):
    """The services of one project and one principal.

    Attributes:
        principal: Whose processes they become, with
        inside: the process of ours in whose tree the caller lived, and
        is_admin: what it might do.
        folder: Where the project's file lies.
        project: Where processes have their names and short ids.
        environment: What every service begins with.
        umask: Of its files; None is the server's.
        nice: What it begins with; None is the keeper's own.
        services: By name, in the order of the file.
    """

    principal: str
    folder: str
    project: str
    services: dict[str, ServiceState]
    inside: str | None = None
    is_admin: bool = False
    environment: dict[str, str] = {}
    umask: int | None = None
    nice: int | None = None

    @property
    def place(self) -> tuple[str, str]:
        """What names it."""
        return self.principal, self.folder

    def start_as(self, owner: Owner) -> None:
        """Have what is started from now on be bounded as a caller of this principal is."""
        self.inside, self.is_admin = owner.inside, owner.is_admin


class ServiceFiles:
    """The folder `services` of a state folder, and the mark; one writer, the server."""

    def __init__(self, layout: Layout, *, fit: Callable[[Callable[[], None]], None]) -> None:
        """Make nothing yet. `fit` calls its argument, and makes room for it on a full disk."""
        self._layout = layout
        self._fit = fit
        self._needing: set[tuple[str, str]] = set()
        self._marking = threading.Lock()  # threads of several projects set and remove one mark

    def read(self) -> list[KeptStack]:
        """Return what is kept; a file that is damaged is left alone."""
        found = []
        try:
            names = sorted(os.listdir(self._layout.services))
        except FileNotFoundError:
            return []
        for name in names:
            if not name.endswith(_SUFFIX):
                continue
            try:
                raw = read_any(f"{self._layout.services}/{name}")
                found.append(msgspec.json.decode(checked_json(raw), type=KeptStack))
            except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
                _logger.warning("services are not understood", extra={"file": name, "reason": str(error)})
        # Until each is kept once more it counts as in need: the mark must not go for a moment, in which a
        # kill may fall.
        self._needing = {kept.place for kept in found}
        return found

    def put(self, kept: KeptStack, *, needs_server: bool) -> None:
        """Keep a project's services as they are now, and mark whether any project needs a server that goes on
        with them.

        Raises:
            OSError: The disk refuses it.
        """
        os.makedirs(self._layout.services, mode=0o700, exist_ok=True)
        content = msgspec.json.encode(kept)
        self._fit(lambda: write_whole(self._path(kept), content, survives="power cut"))
        with self._marking:
            (self._needing.add if needs_server else self._needing.discard)(kept.place)
            self._mark()

    def remove(self, kept: KeptStack) -> None:
        """Forget a project's services, which need no server; idempotent."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(kept))

    def _mark(self) -> None:
        """Mark that a server which is killed has to be started again, or that none has to."""
        path = self._layout.server_wanted
        if not self._needing:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        elif not os.path.exists(path):
            self._fit(lambda: write_whole(path, b"services\n"))

    def _path(self, kept: KeptStack) -> str:
        # Folders hold slashes, and may be longer than a file's name.
        digest = hashlib.sha256("\0".join(kept.place).encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self._layout.services}/{digest[:32]}{_SUFFIX}"
