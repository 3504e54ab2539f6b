"""Finding out, for servers, which sandbox profiles are available here: `CapabilityProbe`.

The attempts run in a process of the keeper's, because commands run beside it: a server whose unit forbids
namespaces, or shows it control groups read-only, would find less than its keeper can do. What is tried is in
`sandbox.capabilities`.
"""

import os
import signal

from outlive.core.values import dataclass, field
from outlive.keeper.common.spawn import PROGRAM_AT, PROGRAM_FLAG, keeper_argv, keeper_environment
from outlive.keeper.supervisor.loop import Loop, Timer
from outlive.keeper.supervisor.managed_process import Answer

# Seconds until the probe counts as hung; it usually takes 0.06 s.
_DEADLINE_S = 20.0
_PIECE_BYTES = 65536


@dataclass(eq=False, slots=True)
class CapabilityProbe:
    """Runs `sandbox.capabilities` on request and passes on what it prints.

    Requests meanwhile get the same answer.
    """

    loop: Loop
    state_dir: str
    program: int
    _asking: list[Answer] = field(default_factory=list, init=False)
    _said: bytes = field(default=b"", init=False)
    _reading: int = field(default=-1, init=False)
    _pidfd: int = field(default=-1, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def ask(self, answer: Answer) -> None:
        """Answer {"found": what it printed} within 20 s; if it died or hung, that text is no JSON."""
        self._asking.append(answer)
        if len(self._asking) > 1:
            return
        self._reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            self._pidfd = os.pidfd_open(self._spawn(writing))
        except OSError:
            self._finish()
            return
        finally:
            os.close(writing)
        self._timer = self.loop.later(_DEADLINE_S, self._finish)
        self.loop.watch(self._reading, self._read)

    def _spawn(self, writing: int) -> int:
        argv = keeper_argv("offers", self.state_dir, f"{PROGRAM_FLAG}{PROGRAM_AT}")
        # In our own POSIX session: a process that leads one counts as a command when it ends
        # (`endings.orphans.Reaper`, which also reaps this one).
        return os.posix_spawn(
            argv[0],
            argv,
            keeper_environment(),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, writing, 1),
                (os.POSIX_SPAWN_DUP2, self.program, PROGRAM_AT),
            ],
            setsigmask=(),
        )

    def _read(self, _events: int) -> None:
        chunk = os.read(self._reading, _PIECE_BYTES)
        self._said += chunk
        if not chunk:
            self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self.loop.unwatch(self._reading)
            self._timer = None
        os.close(self._reading)
        # Also after a regular end: SIGKILL then reaches nothing, and a hung probe must not stay behind.
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended, as expected
            finally:
                os.close(self._pidfd)
        self._reading = self._pidfd = -1
        asking, self._asking = self._asking, []
        said, self._said = self._said.decode("utf-8", "replace"), b""
        for answer in asking:
            answer({"found": said})
