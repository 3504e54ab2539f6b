"""Containers that no socket reaches: `StreamTransport` puts the runner in, and starts the container's proxy on this machine (decision 122).

The container's proxy listens on a socket as its runner would; the tunnel that it starts carries the frames (`ferry`).
Whether a container can be reached by a socket is found by `runner_access`.
"""

import asyncio
import contextlib
import io
import json
import os
import platform
import secrets
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlive.backends.docker import folders
from outlive.backends.docker.api import DockerApi, DockerSettings
from outlive.backends.docker.ferry import LINKED_FILE, TUNNEL_FILE, proxy_argv
from outlive.backends.docker.mounts import RUNNER_FOLDER
from outlive.backends.docker.recipe import aside_name, lender_recipe
from outlive.backends.docker.runner_socket import Connect, LockPath, RunnerHandle
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.layout import Layout

_LINKS_S = 20.0  # until a stream is open: a daemon elsewhere under load may take some seconds for each call
_PAUSE_S = 0.01
_DETACHES_S = 5.0  # until the proxy has detached
_NOBODY = 65534  # owns the runner inside: the container's user must not replace what the daemon starts
_LOG_LINES = 3


class StreamTransport:
    """The stream transport of one state folder, and whether it is used."""

    def __init__(
        self,
        layout: Layout,
        settings: DockerSettings,
        *,
        connect: Connect,
        runner: Callable[[str], str],
        lock: LockPath,
    ) -> None:
        """The arguments are those of `Maker`."""
        self._lock = lock
        self._layout = layout
        self._settings = settings
        self._connect = connect
        self._runner = runner
        self._needed_for: set[str] = set()  # runtimes for which sockets were tried in vain

    def is_used_for(self, runtime: str) -> bool:
        """Tell whether containers of this runtime are reached by a stream."""
        match self._settings.transport:
            case "stream":
                return True
            case "sockets":
                return False
            case _:
                return self._settings.is_remote or runtime in self._needed_for

    def fall_back(self, runtime: str) -> bool:
        """Use streams for a runtime from now on; False when the setting forbids it."""
        if self._settings.transport != "auto":
            return False
        self._needed_for.add(runtime)
        return True

    async def lend_runner(self, api: DockerApi, name: str, body: dict[str, Any], runner: str) -> str:
        """Make a container whose volume holds the runner, and add the volume to `body`; return that container's id.

        It can be removed as soon as the container of `body` was made: the volume lives as long as its last container.
        """
        lender = await api.create(aside_name(name, secrets.token_hex(6)), lender_recipe(body))
        if lender is None:  # the name is taken
            raise AssertionError("two callers drew the same 48 random bits")
        try:
            await api.put_archive(lender, RUNNER_FOLDER, await asyncio.to_thread(archive_of, runner))
        except OutliveError:
            await api.remove(lender)
            raise
        body["HostConfig"]["VolumesFrom"] = [f"{lender}:ro"]
        return lender

    def forget(self, name: str) -> None:
        """Record that a container is reached by sockets."""
        Path(self._layout.container(name), TUNNEL_FILE).unlink(missing_ok=True)

    async def enter(self, name: str, container_id: str, *, multiplexer: str) -> RunnerHandle:
        """Return the handle of a running container, once a stream leads into it; its first process listens at `multiplexer` for it.

        Raises:
            BackendUnavailable: No stream was open in time.
        """
        folder = self._layout.container(name)
        await asyncio.to_thread(self._write, folder, container_id, multiplexer)
        deadline = time.monotonic() + _LINKS_S
        handle: RunnerHandle | None = None
        try:
            while time.monotonic() < deadline:
                if handle is None or not handle.is_open():
                    handle = await self._find_or_start(name, folder, handle)
                elif await asyncio.to_thread(_is_linked, folder, container_id):
                    found, handle = handle, None
                    return found
                await asyncio.sleep(_PAUSE_S)
        finally:
            if handle is not None:
                handle.close()
        raise BackendUnavailable(
            "docker_unavailable",
            f"No stream leads into the container {name} through the Docker daemon: {_last_words(folder)}",
            hint="See ferry.log in the container's folder of the state folder.",
        )

    def _write(self, folder: str, container_id: str, multiplexer: str) -> None:
        settings = {
            "host": self._settings.endpoint.host,
            "cert_folder": self._settings.endpoint.cert_folder,
            "container": container_id,
            "command": [f"{RUNNER_FOLDER}/outlive-runner", "ferry", multiplexer],
            "runner": self._runner(platform.machine()),
            "asks": self._lock() is not None,
        }
        os.makedirs(f"{folder}/run", mode=0o700, exist_ok=True)
        # A link is left by a container of this name that was reached by a socket.
        if os.path.islink(at := f"{folder}/run/runner.sock"):
            os.unlink(at)
        partial = Path(folder, f"{TUNNEL_FILE}.new")
        partial.write_text(json.dumps(settings), "utf-8")
        partial.replace(Path(folder, TUNNEL_FILE))

    async def _find_or_start(
        self, name: str, folder: str, handle: RunnerHandle | None
    ) -> RunnerHandle | None:
        """Find the container's proxy on this machine, or start it."""
        if handle is not None:
            handle.close()
        found = await asyncio.to_thread(self._find, name)
        if found is None:
            await asyncio.to_thread(self._start, folder)
            await asyncio.sleep(_PAUSE_S)
            found = await asyncio.to_thread(self._find, name)
        return found

    def _find(self, name: str) -> RunnerHandle | None:
        pid = folders.read_init(self._layout, name)
        try:
            handle = (
                RunnerHandle(self._layout.stand_socket(name), pid, connect=self._connect) if pid else None
            )
        except ProcessLookupError:
            return None
        if handle is not None and not handle.is_open():
            handle.close()
            return None
        return handle

    def _start(self, folder: str) -> None:
        # It detaches itself; a second one ends at once. A failure shows when no proxy answers.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                proxy_argv(self._runner(platform.machine()), folder, asks=self._lock() is not None),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=_DETACHES_S,
            )


def archive_of(runner: str) -> bytes:
    """Return a tar archive with the runner as "outlive-runner", which all users may execute and none may change."""
    content = Path(runner).read_bytes()
    entry = tarfile.TarInfo("outlive-runner")
    entry.size, entry.mode, entry.uid, entry.gid = len(content), 0o555, _NOBODY, _NOBODY
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _is_linked(folder: str, container_id: str) -> bool:
    try:
        return Path(folder, LINKED_FILE).read_text() == container_id
    except OSError:
        return False


def _last_words(folder: str) -> str:
    try:
        lines = Path(folder, "ferry.log").read_text(errors="replace").strip().splitlines()
    except OSError:
        return "it was not tried."
    return " / ".join(lines[-_LOG_LINES:])[-600:]
