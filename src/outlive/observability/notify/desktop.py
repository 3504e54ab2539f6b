"""`Desktop`: shows notices in the desktop session of the server's user, by `notify-send` (libnotify) over D-Bus.

What a machine lacks for that is said by `why_no_desktop`, for `outlive doctor` and the log.
"""

import asyncio
import html
import os
import shutil
import subprocess
from collections.abc import Mapping

from outlive.observability.notify.notice import Notice
from outlive.observability.notify.webhook import Attempt

_PROGRAM = "notify-send"
_DEADLINE_S = 5.0  # a notification daemon answers at once; one that is started by D-Bus takes a second or two
_BUS = "DBUS_SESSION_BUS_ADDRESS"
# What a program of the desktop needs to reach it: the bus, the display, what it reads of its user, its language. The server's environment
# holds keys and tokens, which are no business of a program that any package may put into the PATH, and of what D-Bus starts for it.
_PASSED = (_BUS, "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "HOME", "PATH", "LANG")


def bus_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of the user's session bus; None where there is none (systemd: /run/user/UID/bus)."""
    if address := environment.get(_BUS):
        return address
    path = f"{environment.get('XDG_RUNTIME_DIR') or f'/run/user/{os.getuid()}'}/bus"
    return f"unix:path={path}" if os.path.exists(path) else None


def why_no_desktop(environment: Mapping[str, str]) -> str | None:
    """Return in one sentence why no desktop notification can be shown here; None if it can."""
    if shutil.which(_PROGRAM, path=environment.get("PATH")) is None:
        return f"{_PROGRAM} is not installed (Debian: libnotify-bin)"
    if bus_address(environment) is None:
        return f"there is no session bus ({_BUS} is not set): no desktop session of this user runs"
    return None


class Desktop:
    """The desktop of the server's user; a notice is tried once, because later it is old news."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Take the server's environment, which says where the session is."""
        self._environment = {name: environment[name] for name in _PASSED if name in environment}

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return "desktop"

    @property
    def tries(self) -> int:
        """How often a notice is tried."""
        return 1

    async def deliver(self, notice: Notice) -> Attempt:
        """Show it. Cancellation: it may be shown."""
        return await asyncio.to_thread(self._show, notice)

    def _show(self, notice: Notice) -> Attempt:
        if (reason := why_no_desktop(self._environment)) is not None:
            return Attempt("refused", reason)
        # Looked up above at each notice, not once: the user may log in, or install the program, while the server runs.
        title, text = notice.lines()
        urgency = "normal" if notice.event == "end" else "critical"
        # "--": a command may begin with a dash. The body is markup (Desktop Notifications Specification), the title is not.
        words = [_PROGRAM, "--app-name=outlive", f"--urgency={urgency}", "--", title, html.escape(text)]
        try:
            done = subprocess.run(
                words,
                env={**self._environment, _BUS: bus_address(self._environment) or ""},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_DEADLINE_S,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return Attempt("refused", f"{_PROGRAM}: {type(error).__name__}")
        if done.returncode:
            return Attempt("refused", f"{_PROGRAM}: {done.stderr[:200].decode(errors='replace').strip()}")
        return Attempt("sent")
