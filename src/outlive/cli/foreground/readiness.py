"""When a command is ready: its output contains a text, or something of it listens on a port. `Readiness`."""

from collections.abc import Callable

from outlive.client import Completion, Gap, InvalidRequest, Output, Process

_LOOK_S = 0.1
_MAX_PORT = 65535


class Readiness:
    """What is waited for: ":8080" is a port, anything else a text of one of its streams, wherever reads cut it."""

    def __init__(self, wanted: str) -> None:
        """Read what is wanted.

        Raises:
            InvalidRequest: It is empty, or no port.
        """
        self.wanted = wanted
        self.port: int | None = None
        self._text = wanted.encode("utf-8", "surrogateescape")
        self._tails = {"stdout": b"", "stderr": b""}
        if wanted.startswith(":") and wanted[1:].isascii() and wanted[1:].isdigit():
            self.port = int(wanted[1:])
        if not wanted or (self.port is not None and not 0 < self.port <= _MAX_PORT):
            raise InvalidRequest("invalid_params", f"--wait-for {wanted!r}: pass a text, or a port as :8080.")

    def is_in(self, item: Output | Gap) -> bool:
        """Tell whether the text is complete with this item."""
        if isinstance(item, Gap) or self.port is not None:
            return False
        seen = self._tails[item.stream] + item.data
        self._tails[item.stream] = seen[max(0, len(seen) - len(self._text) + 1) :]
        return self._text in seen

    def watch_port(self, process: Process, ready: Callable[[], None]) -> None:
        """Call `ready` once it listens on the port; return then, or when it has ended."""
        while self.port not in process.ports():
            if process.wait(_LOOK_S).is_complete:
                return
        ready()

    def wait(self, process: Process) -> Completion | None:
        """Return None once the process is ready, or how it has ended before that."""
        if self.port is not None:
            found: list[None] = []
            self.watch_port(process, lambda: found.append(None))
            if found:
                return None
            info = process.info()
            return Completion(
                exit_code=info.exit_code,
                exit_signal=info.exit_signal,
                error=info.error,
                cursor=info.cursor,
                output_lost=info.output_lost,
            )
        with process.follow() as items:
            for item in items:
                if self.is_in(item):
                    return None
            return items.completion
