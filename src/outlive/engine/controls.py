"""The verbs on a process: pause, resume, cancel, signal, write, close_stdin, resize, release.

Each checks by `core.lifecycle` whether it is possible, asks the backend and returns when that has acknowledged;
what follows from it (the end, for instance) arrives by doorbell.
"""

from outlive.core.lifecycle import Cause
from outlive.engine.process import Process

__all__ = ["Controls"]


class Controls:
    """One half of `Engine`: what can be done to a process.

    Every verb raises InvalidState `process_ended` when the process has ended, BackendUnavailable when the keeper
    does not answer within its deadline. Cancellation of a call does not take back what was already asked.
    """

    async def pause(self, process: Process) -> None:
        """Stop the whole tree until `resume`; repeating it is a success (promise S0.10)."""
        raise NotImplementedError

    async def resume(self, process: Process) -> None:
        """Continue the whole tree; a process that runs already is a success."""
        raise NotImplementedError

    async def cancel(
        self, process: Process, *, grace_s: float | None = None, cause: Cause = Cause.CANCEL, note: str = ""
    ) -> None:
        """End the whole tree: TERM now, KILL after the grace period.

        Returns when the keeper has acknowledged; completion arrives by kick. Repeating it is a success, and a
        shorter grace period shortens the running one. `note` says in one sentence who asked
        (`ProcessRecord.error`). A process whose main process has ended can be cancelled as long as descendants live.
        """
        raise NotImplementedError

    async def signal(self, process: Process, number: int, *, whole_tree: bool = False) -> None:
        """Send a signal to the main process, or to everything below it too."""
        raise NotImplementedError

    async def write(self, process: Process, data: bytes) -> None:
        """Write to the process's input; returns when all of it is in the pipe or terminal.

        Calls for one process are served one after the other, whole. Any length.

        Raises:
            InvalidState: `stdin_closed`: started without "stdin": "pipe", or already closed.
            LimitExceeded: `stdin_full`: the process did not read within 30 s; details tell how many bytes went in.
            BackendUnavailable: `keeper_restarted`: nobody knows whether the last piece went in; never repeated.
        """
        raise NotImplementedError

    async def close_stdin(self, process: Process) -> None:
        """Close the process's input: it reads end-of-file. Repeating it is a success."""
        raise NotImplementedError

    async def resize(self, process: Process, rows: int, cols: int) -> None:
        """Set the terminal's window size.

        Raises:
            InvalidState: `no_terminal`: it was not started with a pty.
        """
        raise NotImplementedError

    async def release(self, process: Process, *, stdout_bytes: int, stderr_bytes: int) -> None:
        """Let go of output before these offsets (only with `on_limit` "block": the reader has it)."""
        raise NotImplementedError
