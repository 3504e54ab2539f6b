"""`outlive logs` without an id where a project has services: the output of all of them, each line with its service's name."""

import contextlib

from outlive.cli.logs.log_view import LogView
from outlive.cli.parameters import UsageError
from outlive.cli.services.output_follow import ServiceFollow, tail_cursor
from outlive.cli.services.printer import ServicePrinter
from outlive.cli.services.settlement import until_settled
from outlive.client import BEGINNING, Client, Cursor, OutliveError, Output, StackInfo

_DRAIN_S = 5.0
_INTERRUPTED = 130  # 128 + SIGINT, as shells count


def show_services(client: Client, stack: StackInfo, view: LogView) -> int:
    """Print the output of every service's newest process; with `follow` what comes, across restarts, until nothing runs."""
    if view.since is not None or view.grep is not None or view.unfiltered or view.as_json or view.raw:
        raise UsageError(
            "these flags are for one process: name it. All services take --follow, --tail and --stream"
        )
    names = frozenset(one.name for one in stack.services)
    printer = ServicePrinter(one.name for one in stack.services)

    def start(process_id: str) -> Cursor:
        return BEGINNING if view.tail is None else tail_cursor(client, process_id, view.tail)

    if not view.follow:
        for one in stack.services:
            if one.process_id is not None:
                _show(client, one.name, one.process_id, start(one.process_id), printer, view)
        return 0
    follow = ServiceFollow(client, stack.folder, printer, names=names, says_states=False)
    follow.begin(stack)
    follow.take(stack, start=start)
    try:
        while not until_settled(stack, names, over=True):
            match follow.news.get():
                case OutliveError() as error:
                    raise error
                case StackInfo() as stack:
                    follow.take(stack)
                case _:
                    raise AssertionError("no signal is turned into news here")
    except KeyboardInterrupt:
        return _INTERRUPTED
    follow.join(_DRAIN_S)
    return 0


def _show(
    client: Client, name: str, process_id: str, cursor: Cursor, printer: ServicePrinter, view: LogView
) -> None:
    """Print what there is of one process, from a cursor on."""
    with contextlib.suppress(OutliveError):  # it was removed
        process = client.get(process_id)
        while (page := process.read(cursor)).items:
            for item in page.items:
                if isinstance(item, Output) and view.stream in {"both", item.stream}:
                    printer.feed(name, item.stream, item.data)
            cursor = page.cursor
    printer.finish(name)
