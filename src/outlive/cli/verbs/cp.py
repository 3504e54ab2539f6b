"""`outlive cp`: files and folders between this machine, the server's, its containers and its nodes."""

import time

from outlive.cli.output import Answer, draw, has_escapes, is_watched, show_error
from outlive.cli.parameters import SERVER, ServerFlags, place, switch, takes
from outlive.cli.processes import connected
from outlive.cli.tables import shown_size
from outlive.client.results import Copied
from outlive.kernel.project import own_project

_UNNOTICED_S = 1.0  # what takes no longer shows no progress
_REDRAWN_S = 0.2
_WORD = "PATH, or PLACE:PATH: a node, local (the server's machine), or a process, for where that runs."


@takes(
    place("source", "SRC", about=_WORD),
    place(
        "target", "DST", about="Likewise. With a slash at its end, or as ., it is the folder to copy into."
    ),
    switch("--compare", about="Compare files of the same size and time by their content, too."),
    *SERVER,
    more="A folder is copied with all that is in it: permissions, times, links as links. What is there "
    "with the same size and time is not sent again, and of a file that came halfway, the rest: repeat a "
    "copy that was cut. SRC/ is what is in a folder. A file of this machine with a colon in its name is "
    "./a:b.",
)
def cp(*, source: str, target: str, compare: bool, server: ServerFlags) -> Answer:
    """Copy; it ends with 1 where something could not be copied.

    Raises:
        OutliveError: Nothing could be.
    """
    meter = _Meter()
    with connected(server) as client:
        try:
            done = client.files.copy(
                source, target, project=own_project(), compare=compare, progress=meter.add
            )
        finally:
            meter.end()
    for one in () if server.as_json else done.left_out:
        show_error(one.error, word=one.name)
    said = f"{done.files} file{'s' * (done.files != 1)} copied ({shown_size(done.sent_bytes)})"
    kept = f", {done.kept} there already" if done.kept else ""
    left = f", {len(done.left_out)} left out" if done.left_out else ""
    code = 1 if done.left_out else 0
    return Answer(_members(done), said=[f"{done.target}: {said}{kept}{left}"], code=code)


def _members(done: Copied) -> dict[str, object]:
    names = ("source", "target", "files", "folders", "links", "kept", "sent_bytes")
    left_out = [
        {"name": one.name, "error": one.error.code, "message": one.error.message} for one in done.left_out
    ]
    return {**{name: getattr(done, name) for name in names}, "left_out": left_out}


class _Meter:
    """Shows at a terminal how much has arrived, in a line that is gone at the end."""

    def __init__(self) -> None:
        self._is_shown = is_watched() and has_escapes()
        self._begun = self._drawn = time.monotonic()
        self._bytes = 0
        self._is_drawn = False

    def add(self, size: int) -> None:
        self._bytes += size
        now = time.monotonic()
        if not self._is_shown or now - self._begun < _UNNOTICED_S or now - self._drawn < _REDRAWN_S:
            return
        self._drawn, self._is_drawn = now, True
        speed = shown_size(round(self._bytes / (now - self._begun)))
        draw(f"{shown_size(self._bytes)} copied, {speed}/s")

    def end(self) -> None:
        if self._is_drawn:
            draw("")
