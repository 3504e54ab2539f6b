"""Which server may serve a state folder: `Ownership`, the marks in the folder (decision 141).

The marks are the operator's settings (`operator.json`), an operator's stop (`server.stopped`) and an owning
service (`service.json`). A client that finds no server reads them before it starts one; the server that it
starts obeys the settings.

Starting a server belongs to `discovery.server`; which of two servers gets the folder to `server_lock`.
"""

import contextlib
import json
import os
from collections.abc import Mapping

from outlive.core.documents import decode_json
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.keeper.common.spawn import SERVICE_VARIABLE
from outlive.kernel.disk import Reserve
from outlive.kernel.files import read_any, read_small, write_whole
from outlive.kernel.processes import this_boot
from outlive.kernel.state_files import is_stopped, unit_file

_SYSTEM_UNITS = "/etc/systemd/system/"
# The environment variables that decide which configuration files count.
_CONFIG_VARIABLES = ("OUTLIVE_CONFIG", "XDG_CONFIG_HOME", "HOME")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings of the last `outlive serve` from flags, environment and its project's file: option names
    to texts.

    `config` are the environment variables that decided which configuration files it read.
    """

    settings: Mapping[str, str]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwningUnit:
    """The unit of systemd that owns a folder's server, and the commands that start and stop it."""

    unit: str
    start: str
    stop: str


class Ownership:
    """The marks of one state folder."""

    def __init__(self, layout: Layout) -> None:
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
            document = decode_json(read_any(path))
            return OperatorSettings(
                settings={str(name): str(text) for name, text in document["settings"].items()},
                config={str(name): str(text) for name, text in document["config"].items()},
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigInvalid(
                "config_invalid",
                f"The operator's settings in {path} cannot be read: {error}.",
                hint=f"`outlive serve --state-dir {self._layout.root}` with your settings writes them anew.",
            ) from error

    def note_stop(self) -> None:
        """Record that the server was stopped on purpose: neither the guardian nor what was connected to it
        brings one back.

        Counts until the next boot, or the next server.
        """
        with contextlib.suppress(OSError):  # a full disk must not keep a server from stopping
            self._keep(self._layout.server_stopped, this_boot().encode())

    def forget_stop(self) -> None:
        """Remove the mark of a stop, because a server serves the folder now, or is about to.

        Raises:
            ConfigInvalid: `state_folder`: it cannot be removed, or is no file of outlive's.
        """
        path = self._layout.server_stopped
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            text = f"{path} cannot be removed: {error.strerror}."
            hint = "It is to be a file, or absent: move away what is there."
            raise ConfigInvalid("state_folder", text, hint=hint) from error

    @property
    def is_stopped(self) -> bool:
        """Whether the last server was stopped on purpose since this machine was booted."""
        return is_stopped(self._layout)

    def note_service(self, environ: Mapping[str, str]) -> None:
        """Record the unit that has started this server as the folder's owner.

        Without a unit, remove the record.
        """
        path = environ.get(SERVICE_VARIABLE, "")
        if path.startswith("/"):
            self._keep(self._layout.service, json.dumps({"unit_file": path}).encode())
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._layout.service)

    def _keep(self, path: str, content: bytes) -> None:
        if read_small(path) != content:  # nothing to write, so a full disk does no harm
            Reserve(self._layout.root).fit(lambda: write_whole(path, content, survives="power cut"))

    def service(self) -> OwningUnit | None:
        """Return the unit that owns this folder; None when none does, or its file is gone."""
        path = unit_file(self._layout)
        if path is None:
            return None
        unit = os.path.basename(path)
        scope = "" if path.startswith(_SYSTEM_UNITS) else "--user "
        return OwningUnit(
            unit=unit, start=f"systemctl {scope}start {unit}", stop=f"systemctl {scope}stop {unit}"
        )
