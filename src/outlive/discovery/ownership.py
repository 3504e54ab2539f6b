"""Which server may serve a state folder: `Ownership`, marks in the folder, and `take_over` between two servers (decision 141).

The marks are the operator's settings (`operator.json`), an operator's stop (`server.stopped`) and an owning service
(`service.json`). A client that finds no server reads them before it starts one; the server that it starts obeys the settings.

A server that a client has started yields to the operator's: `take_over` sends it the signal `HAND_OVER`. Such a server is
recognized by `SELF_STARTED` in its command line. Nothing is lost: the keeper holds the commands, and clients connect again.

Starting a server belongs to `discovery.server`; the lock itself to `state_folder` and `keeper.common.locks`.
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
from outlive.keeper.common.locks import holder_of, take_lock
from outlive.keeper.common.spawn import SERVICE_VARIABLE

_SYSTEM_UNITS = "/etc/systemd/system/"
# The environment variables that decide which configuration files count.
_CONFIG_VARIABLES = ("OUTLIVE_CONFIG", "XDG_CONFIG_HOME", "HOME")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings of the last `outlive serve` from flags, environment and its project's file: option names to texts.

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
        """Write the settings of an operator's server; as a whole file, readable by its user only.

        Args:
            settings: Option name to text, with absolute paths.
            environ: The operator's environment.
            working_folder: The operator's working folder, to which a relative OUTLIVE_CONFIG refers.
        """
        config = {name: environ[name] for name in _CONFIG_VARIABLES if environ.get(name)}
        if named := config.get("OUTLIVE_CONFIG"):
            config["OUTLIVE_CONFIG"] = os.path.join(working_folder, named)
        document = {"settings": dict(settings), "config": config}
        self._keep(self._layout.operator_settings, json.dumps(document).encode())

    def operator_settings(self) -> OperatorSettings | None:
        """Return the settings of the last operator's server; None when there was none.

        Raises:
            ConfigInvalid: The file cannot be read. A server without the operator's rules must not start.
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
        """Record that an operator has stopped the server: only a start brings one back. Counts until the next boot."""
        with contextlib.suppress(OSError):  # a full disk must not keep a server from stopping
            self._keep(self._layout.server_stopped, BOOT_ID.encode())

    def forget_stop(self) -> None:
        """Remove the mark of a stop, because a server serves the folder now."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._layout.server_stopped)

    @property
    def is_stopped(self) -> bool:
        """Whether an operator has stopped the last server since this machine was booted."""
        return _read(self._layout.server_stopped) == BOOT_ID.encode()

    def note_service(self, environ: Mapping[str, str]) -> None:
        """Record the unit that has started this server as the folder's owner; without a unit, remove the record."""
        path = environ.get(SERVICE_VARIABLE, "")
        if path.startswith("/"):
            self._keep(self._layout.service, json.dumps({"unit_file": path}).encode())
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._layout.service)

    def _keep(self, path: str, content: bytes) -> None:
        if _read(path) != content:  # nothing to write, so a full disk does no harm
            Reserve(self._layout.root).fit(lambda: write_whole(path, content))

    def service(self) -> OwningUnit | None:
        """Return the unit that owns this folder; None when none does, or its file is gone."""
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
# An orderly stop takes a tenth of a second. After 5 s the server hangs and is killed: everything that must survive that lies on
# disk or with the keeper.
_HAND_OVER_S = 5.0
_POLL_S = 0.01


def take_over(layout: Layout, *, say: Callable[[str], None]) -> int | None:
    """Return the server's lock, after a server that a client has started has yielded; None when an operator's server holds it."""
    asked: int | None = None  # the pid of the server that was asked to yield
    until = time.monotonic() + _HAND_OVER_S
    while True:
        fd = take_lock(layout.server_lock)
        if fd is not None:
            return fd
        pid = holder_of(layout.server_lock)
        if pid is not None and pid != asked:
            if pid and not _is_self_started(pid):
                return None
            if pid:  # 0: the holder has not written its pid yet
                say(f"outlive: the server that a client has started (pid {pid}) hands over")
                _send(layout, pid, HAND_OVER)
                asked, until = pid, time.monotonic() + _HAND_OVER_S
        if time.monotonic() > until:
            if asked is None:
                return None
            _send(layout, asked, signal.SIGKILL)
            until = time.monotonic() + _HAND_OVER_S
            asked = None
        time.sleep(_POLL_S)


def _is_self_started(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return SELF_STARTED.encode() in file.read().split(b"\0")
    except OSError:
        return True  # it has just ended: the lock is free in a moment


def _send(layout: Layout, pid: int, number: signal.Signals) -> None:
    """Send a signal to the holder of the lock, and to no process that has inherited its pid."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            # Asked again once the pidfd is open: if this process still holds the lock, the pidfd is its own.
            if holder_of(layout.server_lock) == pid:
                signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
