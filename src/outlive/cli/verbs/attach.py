"""`outlive attach`: a command that runs already, in the foreground; it runs on when we leave.

What happens there is `outlive.cli.foreground`'s.
"""

import os
import stat
from datetime import UTC, datetime

from outlive.cli.far import a_client, far_url
from outlive.cli.foreground.keyboard import DetachKeys, feed
from outlive.cli.foreground.session import ForegroundSession, look_on, own_terminal
from outlive.cli.foreground.signals import OURS_FAILED, EarlySignals, die_of
from outlive.cli.foreground.start import Surroundings
from outlive.cli.logs.log_follow import fetched
from outlive.cli.output import say, show_error
from outlive.cli.parameters import DETACH_KEYS, NAME, NO_START, STATE_DIR, switch, takes
from outlive.cli.processes import find_process
from outlive.cli.tables import age, outcome
from outlive.client import Cursor, OutliveError, Process
from outlive.client.results import ProcessInfo
from outlive.core.identity import LAST
from outlive.core.layout import Layout
from outlive.discovery.state_folder import layout_of
from outlive.store.output_log import OutputLog
from outlive.store.search.log_search import tail_start

_LINES = 10  # shown of what was before, where there is no screen to fill


@takes(
    NAME._replace(metavar="[PROCESS]", is_required=False, note="default: @last", default=LAST),
    DETACH_KEYS,
    switch("--read-only", about="Look on: no keys, no input, no signals."),
    STATE_DIR,
    NO_START,
    more="outlive attach 3k9x2m     outlive attach --read-only 3k9x2m",
)
def attach(*, name: str, detach_keys: str, read_only: bool, state_dir: str | None, no_start: bool) -> int:
    """Bring a process to the foreground; return its exit code, or die of the signal that it died of.

    Raises:
        OutliveError: There is no such process, or its output cannot be read.
    """
    Surroundings.found()
    keys = DetachKeys(detach_keys)
    layout = layout_of(state_dir)
    with a_client(layout.root, no_start=no_start) as client:
        process = find_process(client, name)
        info = process.info()
        if info.ended_at is not None:  # nothing will come, and no key is heard: not in silence
            since = age(info.ended_at, datetime.now(UTC))
            say(f"outlive: it has ended {since} ago ({outcome(info)}); this is the end of its output.")
        terminal = own_terminal()
        has_terminal = info.stdio == "pty"
        types = not read_only and not info.is_complete and (has_terminal or info.stdin == "pipe")
        is_elsewhere = far_url() is not None or info.location is not None
        session = look_on(
            process, info, layout, terminal=terminal, keys=keys, types=types, is_elsewhere=is_elsewhere
        )
        EarlySignals(terminal).pass_on(session.obey if read_only else session.heed)
        if types:
            session.begin()
            _feed_or_redraw(process, session, is_typed=terminal is not None, has_terminal=has_terminal)
        try:
            code, number = session.run(_beginning(process, layout, info, session))
        except OutliveError as error:
            show_error(error)
            return OURS_FAILED
    if number:
        die_of(number)
    return code


def _beginning(process: Process, layout: Layout, info: ProcessInfo, session: ForegroundSession) -> Cursor:
    if far_url() is not None:
        with fetched(process, raw=False) as (here, _):
            return _beginning_here(here, info, session)
    return _beginning_here(layout, info, session)


def _beginning_here(layout: Layout, info: ProcessInfo, session: ForegroundSession) -> Cursor:
    log = OutputLog(layout.process(info.process_id))
    try:
        return tail_start(log, _LINES if session.rows is None else session.rows - 1)
    finally:
        log.close()


def _feed_or_redraw(
    process: Process, session: ForegroundSession, *, is_typed: bool, has_terminal: bool
) -> None:
    """Make a program draw its screen anew by a change of its size; or feed it from a pipe or file of ours."""
    if is_typed:
        if has_terminal:
            session.redraw()
    elif not _is_null(0):
        feed(process)


def _is_null(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3)
