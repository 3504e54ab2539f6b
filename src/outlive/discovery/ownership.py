"""Who serves a state folder, as files in it: `Ownership`.

The operator's settings (`operator.json`), an ordered stop (`server.stopped`), and a service (`service.json`). Clients that find
no server look here before they start one; what they start obeys the settings. Decision 141.

A server that a client has started by itself yields to the operator's: `take_over` asks, `HAND_OVER` is what it hears.

Such a server is known by its command line, which has `SELF_STARTED` in it. Nothing is lost: commands are the keeper's, and clients
connect again.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from outlive.core.errors import ConfigInvalid
from outlive.core.layout import Layout
from outlive.keeper.common.disk import Reserve
from outlive.keeper.common.files import write_whole
from outlive.keeper.common.kernel import BOOT_ID
from outlive.keeper.common.launch import SERVICE_VARIABLE
from outlive.keeper.common.locks import holder_of, take_lock

_SYSTEM_UNITS = "/etc/systemd/system/"
# They decide which configuration files count.
_CONFIG_VARIABLES = ("OUTLIVE_CONFIG", "XDG_CONFIG_HOME", "HOME")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What the last `outlive serve` was told by flags, environment and its project's file: option names to texts.

    `config` are the environment variables that decided which configuration files it read.
    """

    settings: Mapping[str, str]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwningUnit:
    """The unit of systemd that owns a folder's server, and the command that starts it."""

    unit: str
    start: str


class Ownership:
    """The marks of one state folder."""

    def __init__(self, layout: Layout) -> None:
        """Take the state folder; nothing is read yet."""
        self._layout = layout

    def remember(
        self, settings: Mapping[str, str], environ: Mapping[str, str], *, working_folder: str
    ) -> None:
        """Write down what an operator's server was told; whole, and readable for its user alone.

        Args:
            settings: Option name to text, its paths absolute.
            environ: The operator's environment.
            working_folder: The operator's: the file that a relative OUTLIVE_CONFIG names lies there.
        """
        config = {name: environ[name] for name in _CONFIG_VARIABLES if environ.get(name)}
        if named := config.get("OUTLIVE_CONFIG"):
            config["OUTLIVE_CONFIG"] = os.path.join(working_folder, named)
        document = {"settings": dict(settings), "config": config}
        self._keep(self._layout.operator_settings, json.dumps(document).encode())

    def operator_settings(self) -> OperatorSettings | None:
        """Return what the last operator's server was told; None where there was none.

        Raises:
            ConfigInvalid: What stands there cannot be read: a server without the operator's rules must not start.
        """
        path = self._layout.operator_settings
        try:
            with open(path, "rb") as file:
                document = json.load(file)
            return OperatorSettings(
                settings={str(name): str(text) for name, text in document["settings"].items()},
                config={str(name): str(text) for name, text in document["config"].items()},
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigInvalid(
                "config_invalid",
                f"The operator's settings in {path} cannot be read: {error}.",
                hint=f"`outlive serve --state-dir {self._layout.root}` with your settings writes them anew.",
            ) from error

    def note_stop(self) -> None:
        """Note that the server was stopped in order: only a start brings one back. It counts until the next boot."""
        with contextlib.suppress(OSError):  # a full disk keeps no server from stopping
            self._keep(self._layout.server_stopped, BOOT_ID.encode())

    def forget_stop(self) -> None:
        """A server is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._layout.server_stopped)

    @property
    def is_stopped(self) -> bool:
        """Whether the last server was stopped in order, since this machine was started."""
        return _read(self._layout.server_stopped) == BOOT_ID.encode()

    def note_service(self, environ: Mapping[str, str]) -> None:
        """Note, or take back, that a unit owns this folder: the one that started this server."""
        path = environ.get(SERVICE_VARIABLE, "")
        if path.startswith("/"):
            self._keep(self._layout.service, json.dumps({"unit_file": path}).encode())
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._layout.service)

    def _keep(self, path: str, content: bytes) -> None:
        if _read(path) != content:  # a disk that takes nothing need not, then
            Reserve(self._layout.root).fit(lambda: write_whole(path, content))

    def service(self) -> OwningUnit | None:
        """Return the unit that owns this folder; None where none does, or its file is gone."""
        raw = _read(self._layout.service)
        if raw is None:
            return None
        try:
            path = str(json.loads(raw)["unit_file"])
        except (ValueError, LookupError, TypeError):
            return None
        if not os.path.exists(path):
            return None
        unit = os.path.basename(path)
        scope = "" if path.startswith(_SYSTEM_UNITS) else "--user "
        return OwningUnit(unit=unit, start=f"systemctl {scope}start {unit}")


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


SELF_STARTED = "--self-started"
HAND_OVER = signal.SIGUSR1
_PATIENCE_S = 5.0  # an orderly stop takes a tenth of a second; what must survive one that hangs is on disk or the keeper's
_POLL_S = 0.01


def take_over(layout: Layout, *, say: Callable[[str], None]) -> int | None:
    """Return the server's lock once the server that a client has started has left; None when another one holds it."""
    asked: int | None = None
    until = time.monotonic() + _PATIENCE_S
    while True:
        fd = take_lock(layout.server_lock)
        if fd is not None:
            return fd
        pid = holder_of(layout.server_lock)
        if pid is not None and pid != asked:
            if pid and not _is_self_started(pid):
                return None
            if pid:  # 0: it has not written its number yet
                say(f"outlive: the server that a client has started (pid {pid}) hands over")
                _send(layout, pid, HAND_OVER)
                asked, until = pid, time.monotonic() + _PATIENCE_S
        if time.monotonic() > until:
            if asked is None:
                return None
            _send(layout, asked, signal.SIGKILL)
            until = time.monotonic() + _PATIENCE_S
            asked = None
        time.sleep(_POLL_S)


def _is_self_started(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return SELF_STARTED.encode() in file.read().split(b"\0")
    except OSError:
        return True  # it has just gone: the lock is free in a moment


def _send(layout: Layout, pid: int, number: signal.Signals) -> None:
    """Send a signal to the holder of the lock, and to no other process that has got its number."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if holder_of(layout.server_lock) == pid:
                signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
