"""`outlive run --key` of a command that was started before: its output again, what follows, its end.

Nothing is started.

We look on, as `outlive attach` does: the process may be another terminal's. What is typed goes to no command,
and a signal that is to end us ends us alone; only Ctrl-C at our terminal is meant for the command.
"""

import signal
from datetime import UTC, datetime

from outlive.cli.foreground.delivery import Delivery
from outlive.cli.foreground.keyboard import DetachKeys
from outlive.cli.foreground.session import ForegroundSession
from outlive.cli.foreground.signals import die_of
from outlive.cli.output import say
from outlive.client import Process
from outlive.client.results import ProcessInfo, Stream
from outlive.core.hints import ran_before
from outlive.core.identity import short_name
from outlive.core.layout import Layout


def say_repeated(info: ProcessInfo) -> None:
    """Say that nothing was started, and when the process ran: its result may be old."""
    ended_s_ago = None if info.ended_at is None else (datetime.now(UTC) - info.ended_at).total_seconds()
    say(f"outlive: {info.short_id or short_name(info.process_id)} {ran_before(ended_s_ago)}")


def look_on(
    process: Process, info: ProcessInfo, layout: Layout, *, keys: DetachKeys, is_elsewhere: bool
) -> ForegroundSession:
    """Return a session that shows an earlier process from its beginning and acts on it only as a viewer
    does.
    """
    # Start-up time: the audit log's parts are for the few calls that come here.
    from outlive.cli.operator.audit import may_show_raw  # noqa: PLC0415

    return ForegroundSession(
        process,
        Delivery(process, releases=False, gone=_gone),
        terminal=None,
        has_terminal=info.stdio == "pty",
        keys=keys,
        types=False,
        is_viewer=True,
        is_elsewhere=is_elsewhere,
        shows_raw=None if may_show_raw(layout) else False,
    )


def _gone(_stream: Stream) -> None:
    die_of(signal.SIGPIPE)  # the reader of our output has left: the command does not notice
