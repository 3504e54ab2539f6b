"""The output of all services of a project as it comes, across restarts: `ServiceFollow`.

A thread waits for news of the services, and each process that runs has one that follows its output. The main
thread takes everything from one queue, so that a signal finds it at rest.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Collection, Mapping

from outlive.cli.tables import service_sentence
from outlive.client import BEGINNING, Client, Cursor, OutliveError, Output, ServiceInfo, StackInfo
from outlive.extensions.services.printer import ServicePrinter
from outlive.store.end_sentences import loss_sentence

_NEWS_S = 30.0  # of one request for news

News = StackInfo | OutliveError | int  # of the services, of a fault, or the number of a signal


class ServiceFollow:
    """Follows what runs, and what is started later.

    Attributes:
        news: What the main thread waits for; signals put their number there.
    """

    def __init__(
        self,
        client: Client,
        folder: str,
        printer: ServicePrinter,
        *,
        names: Collection[str],
        says_states: bool,
    ) -> None:
        """Follow these services (none: all) of the project in a folder.

        With `says_states` also what they do.
        """
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._client = client
        self._folder = folder
        self._printer = printer
        self._names = frozenset(names)
        self._says_states = says_states
        self._followed: dict[str, threading.Thread] = {}
        self._said: dict[str, tuple[str, str | None]] = {}

    def begin(self, stack: StackInfo) -> None:
        """Begin to wait for news after this state."""
        threading.Thread(target=self._watch, args=(stack.revision,), name="services", daemon=True).start()

    def take(self, stack: StackInfo, *, start: Callable[[str], Cursor] = lambda _: BEGINNING) -> None:
        """Follow the processes that are new in this state, each from where `start` says, and say what has
        changed.
        """
        services = {one.name: one for one in stack.services}
        for one in self._chosen(stack):
            if (
                one.process_id is not None
                and one.process_id not in self._followed
                and one.state != "starting"
            ):
                self._follow(one.name, one.process_id, start(one.process_id))
            if self._says_states:
                self._say(one, services)

    def join(self, patience_s: float) -> None:
        """Wait until the output of what has ended is printed."""
        for thread in self._followed.values():
            thread.join(patience_s)

    def _chosen(self, stack: StackInfo) -> list[ServiceInfo]:
        return [one for one in stack.services if not self._names or one.name in self._names]

    def _say(self, one: ServiceInfo, services: Mapping[str, ServiceInfo]) -> None:
        known = (one.state, one.process_id)
        is_passing = one.state in {"starting", "running", "stopping"} or (
            one.state == "waiting" and not one.is_blocked
        )
        if self._said.get(one.name) == known or is_passing:
            return
        was_told = one.name in self._said
        self._said[one.name] = known
        if one.state == "stopped" and not was_told:
            return  # nothing wants it
        if one.state in {"failed", "backing_off", "done", "stopped"} and one.process_id in self._followed:
            # Its last words come before what is said of its end.
            self._followed[one.process_id].join(2.0)
        self._printer.say(one.name, service_sentence(one, services))

    def _watch(self, revision: int) -> None:
        while True:
            try:
                stacks = self._client.services.list(self._folder, revision=revision, wait_s=_NEWS_S)
            except OutliveError as error:
                self.news.put(error)
                return
            for stack in stacks:
                if stack.revision != revision:
                    revision = stack.revision
                    self.news.put(stack)

    def _follow(self, name: str, process_id: str, cursor: Cursor) -> None:
        def follow() -> None:
            # One that was removed meanwhile, or a server that stays away: the news say so.
            with contextlib.suppress(OutliveError), self._client.attach(process_id, cursor) as items:
                for item in items:
                    if isinstance(item, Output):
                        self._printer.feed(name, item.stream, item.data)
                    else:
                        self._printer.gap(name, item.stream, item.end - item.start)
                info = self._client.get(process_id).info()
                if info.output_lost:
                    self._printer.lack(name, loss_sentence(info.lost_bytes))
            self._printer.finish(name)

        thread = threading.Thread(target=follow, name=name, daemon=True)
        self._followed[process_id] = thread
        thread.start()
