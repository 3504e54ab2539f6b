"""A keeper whose commands are all started by a runner: `ContainedHouse`.

Where we are root the runner is the first process of a PID namespace, as in a container, and is handed its
socket and the supervisor's lock as a server does it; else it is a process beside the keeper that lets anybody
in.
"""

import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self, Unpack

from outlive.core.identity import ProcessId
from outlive.core.spec import Spec
from outlive.extensions.docker.folders import prepare_hand
from outlive.extensions.docker.runner import SocketHandover, mark_of
from outlive.kernel import sockets
from outlive.kernel.folder_identity import claim_folder
from outlive.kernel.processes import children
from tests.keeper.client import until
from tests.keeper.house import House, Options
from tests.support.processes import end

CONTAINER = "session-0123456789abcdef"
HAS_NAMESPACES = (
    os.getuid() == 0 and shutil.which("unshare") is not None
)  # only root may make a PID namespace
UNSHARE = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child=KILL")


class ContainedHouse(House):
    """A house with one container, which is none: its runner is a process beside the keeper."""

    def __init__(self, state_dir: Path, *, runner: Path, env: Mapping[str, str] | None = None) -> None:
        """Describe; `runner` is the program."""
        super().__init__(state_dir, env=env)
        self._program = runner
        self._runner: subprocess.Popen[bytes] | None = None
        self.runner = 0  # its pid

    def __enter__(self) -> Self:
        """Start the runner, the keeper, and connect."""
        self.state_dir.mkdir(mode=0o700, exist_ok=True)
        claim_folder(self.layout)
        folder = Path(self.layout.container(CONTAINER))
        folder.mkdir(parents=True)
        if HAS_NAMESPACES:
            self._start_contained(folder)
        else:
            self._start_beside(folder)
        return super().__enter__()

    def _start_contained(self, folder: Path) -> None:
        prepare_hand(self.layout, CONTAINER)
        known = f"--lock={mark_of(self.layout.supervisor_lock)}"
        words = [*UNSHARE, str(self._program), "serve", "--handed", known, "hand/hand.sock"]
        self._runner = subprocess.Popen(words, cwd=folder, env={}, stdin=subprocess.DEVNULL)
        until(lambda: children(self._process), "the first process of the namespace")
        (self.runner,) = children(self._process)
        (folder / "init").write_text(f"{self.runner}\n")
        handing = SocketHandover(self.layout, CONTAINER, lock=self.layout.supervisor_lock)

        def listens() -> bool:
            handing.turn(self.runner)
            try:
                sockets.connect_unix(str(folder / "runner.sock")).close()
            except OSError:
                return False
            return True

        try:
            until(listens, "the runner to take its socket")
        finally:
            handing.close()

    def _start_beside(self, folder: Path) -> None:
        path = str(folder / "runner.sock")
        with sockets.listen_unix(path) as listener:
            words = [str(self._program), "serve", "--any-peer"]
            self._runner = subprocess.Popen(words, cwd=folder, env={}, stdin=listener.fileno())
        self.runner = self._process
        (folder / "init").write_text(f"{self.runner}\n")

        def listens() -> bool:
            with sockets.connect_unix(path) as link:  # in the runner's name, or still in ours
                peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return bool(struct.unpack("3i", peer)[0] == self.runner)

        until(listens, "the runner to listen")

    @property
    def _process(self) -> int:
        assert self._runner is not None
        return self._runner.pid

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        """End the keeper, then the runner: nothing may be left."""
        try:
            self.end()
        finally:
            if self._runner is not None:
                end(self.runner)
                self._runner.wait()
            super().__exit__(kind, *exception)

    def spec(self, *argv: str, **options: Unpack[Options]) -> tuple[ProcessId, Spec]:
        """Return an id and the spec of a command that runs in the container."""
        process_id, spec = super().spec(*argv, **options)
        return process_id, spec._replace(container=CONTAINER)
