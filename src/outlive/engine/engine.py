"""`Engine`, the one facade of all doors: its life (open, recover, close) and the start of commands.

The verbs on a process are in `controls`, the questions in `queries`; `Engine` is both of them.
It knows no frontend and no protocol: doors call it, are woken through `Process.subscribe` and read the log.
"""

from collections.abc import Callable

from outlive.core.command import Command
from outlive.core.events import Event
from outlive.core.identity import ProcessId
from outlive.core.process import Owner
from outlive.engine.controls import Controls
from outlive.engine.process import Process
from outlive.engine.queries import Queries

__all__ = ["Engine"]


class Engine(Controls, Queries):
    """Starts, controls, finds and remembers processes.

    `async with Engine(...)` opens the registry, connects to the keeper (starting it when nobody listens) and
    recovers what earlier servers started; leaving it stops nothing: the commands go on.
    """

    async def start(self, command: Command, *, owner: Owner, process_id: ProcessId | None = None) -> Process:
        """Start a command and return once it runs.

        Args:
            command: What to run; defaults are filled in from the engine's settings.
            owner: Whose process it becomes.
            process_id: A permanent id chosen by the caller; a repeated start with it starts nothing twice.

        Raises:
            StartFailed: Program or folder missing, not executable, an argument too long.
            InvalidRequest: The command makes no sense (empty, NUL inside).
            LimitExceeded: Too many processes, or the disk is full.
            BackendUnavailable: The keeper did not answer within 25 s; the details carry the process id, because
                the command may still start.

        Cancellation: the command may run all the same; it is then found by its owner's connection.
        """
        raise NotImplementedError

    def subscribe_events(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call `callback` on the loop for every event from now on; return what ends that.

        It must be quick and must not raise (it is logged if it does); nothing is queued for it.
        """
        raise NotImplementedError
