"""What servers and the command line may ask of the supervisor: one method for each operation of the local
protocol.

This module checks a request and passes it to the part that carries it out; it keeps no state. Packets are
read and written in `clients`, their format is in `protocols.keeper`.
"""

import contextlib
import math
import os
import signal
from collections.abc import Callable, Mapping

from outlive.core.identity import id_to_bytes, is_process_id
from outlive.core.values import dataclass
from outlive.keeper.supervisor.capability_probe import CapabilityProbe
from outlive.keeper.supervisor.clients import ControlClient
from outlive.keeper.supervisor.endings.terminator import Terminator
from outlive.keeper.supervisor.endings.tree_control import TreeControl
from outlive.keeper.supervisor.inputs import Inputs, PassedStdin
from outlive.keeper.supervisor.lifecycle import Lifecycle
from outlive.keeper.supervisor.managed_process import Answer, ManagedProcess, set_window_size
from outlive.keeper.supervisor.output.limits import OutputLimits
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.process_table import ManagedProcesses
from outlive.keeper.supervisor.starts.launcher import Launcher
from outlive.kernel import sockets
from outlive.protocols.frames import encode_secrets
from outlive.protocols.keeper import CauseCode, Phase

_Message = Mapping[str, object]
# That a request waits for a process which is not taken over yet; servers wait longer for its answer.
_PATIENCE_S = 10.0
_START_PATIENCE_S = 30.0  # the same for a start
_UNRECOVERED: _Message = {
    "error": "timeout",
    "message": "The process's shim has not answered the new supervisor yet: it is stopped, or starved.",
}
_ENDED = {"error": "process_ended", "message": "The keeper does not hold this process (any more)."}
_NOTHING_FOUND = {"error": "process_ended", "message": "Nothing of the process is found: it is ending."}
_INSIDE = "A process that outlive has started may not tell the keeper what to do."


@dataclass(eq=False, slots=True, kw_only=True)
class Requests:
    """Validates requests and passes them on."""

    lifecycle: Lifecycle
    table: ManagedProcesses
    starts: Launcher
    trees: TreeControl
    stops: Terminator
    inputs: Inputs
    limits: OutputLimits
    passed_stdin: PassedStdin
    probe: CapabilityProbe
    pump: Pump

    def handle(
        self,
        client: ControlClient,
        message: dict[str, object],
        payload: bytes,
        fds: list[int],
        answer: Answer,
    ) -> None:
        """Carry out one request; descriptors that came with it are closed.

        A request about a process that is not taken over yet waits for the takeover, at most 10 s: servers
        wait longer for the answer. A start waits longer than servers do, because it must not be taken for one
        that failed.
        """
        is_start = message.get("op") == "start"
        try:
            # A start may be too large for a packet: then its content is a file in memory.
            content = _read_all(fds[0]) if fds and is_start and not client.is_inside else payload
            unrecovered = self.table.unrecovered
            key = _subject(message) if unrecovered.by_key else b""
            if key in unrecovered.by_key and not client.is_inside:
                unrecovered.wait(
                    key,
                    lambda: self._carry_out(client, message, content, fds, answer),
                    late=lambda: answer(dict(_UNRECOVERED)),
                    size=len(content),
                    within_s=_START_PATIENCE_S if is_start else _PATIENCE_S,
                )
            else:
                self._carry_out(client, message, content, fds, answer)
        finally:
            for fd in fds:
                os.close(fd)

    def _carry_out(
        self, client: ControlClient, message: _Message, content: bytes, fds: list[int], answer: Answer
    ) -> None:
        """Find what is asked for, and the process that it is about."""
        try:
            match message["op"]:
                # A command inside the keeper's trees may lend its standard input to a start that the server
                # makes for it.
                case "lend":
                    _refuse_lent_stdin(client, str(message["id"]), answer, is_lending=bool(fds))
                # It must not control the keeper.
                case _ if client.is_inside:
                    answer({"error": "inside_process", "message": _INSIDE})
                case "start":
                    size, secrets = int(str(message["spec_bytes"])), message.get("secrets")
                    self.starts.start(
                        str(message["id"]),
                        content[:size],
                        content[size:],
                        answer,
                        secrets=encode_secrets(secrets) if isinstance(secrets, dict) else None,
                    )
                case "hello" | "status" | "offers" | "end" | "retire" as operation:
                    self._manage(client, operation, message, answer)
                case str() as operation:
                    process = self.table.by_key.get(id_to_bytes(str(message["id"])))
                    if process is None:
                        answer(dict(_ENDED))
                    elif operation == "write":
                        self.inputs.write(process, content, answer)
                    elif operation == "input":
                        self.inputs.give(process, fds[0] if client.is_server and fds else -1, answer)
                    else:
                        self._control(process, operation, message, answer)
                case other:
                    answer(_unknown(other))
        except (KeyError, ValueError, TypeError) as error:
            answer({"error": "invalid_params", "message": f"The keeper does not understand this: {error!r}."})

    def _manage(self, client: ControlClient, operation: str, message: _Message, answer: Answer) -> None:
        match operation:
            case "hello":
                answer(self.lifecycle.status())
                if message.get("role") == "server":
                    self.lifecycle.greet(client)
            case "status":
                answer(self.lifecycle.status())
            case "offers":
                self.probe.ask(answer)
            case "end":
                within_s = float(str(message.get("within_s", math.inf)))
                self.lifecycle.end(answer, kill=bool(message.get("kill")), within_s=within_s)
            case "retire":
                self.lifecycle.retire(answer)

    def _control(self, process: ManagedProcess, operation: str, message: _Message, answer: Answer) -> None:
        match operation:
            case "pause":
                _if_it_runs(process, self.trees.pause, answer)
            case "resume":
                _if_it_runs(process, self.trees.resume, answer)
            case "stop":
                self._stop(process, message, answer)
            case "signal":
                self._signal(process, message, answer)
            case "close_stdin":
                self.inputs.close(process, answer)
            case "resize":
                _resize(process, message, answer)
            case "release":
                # All others keep their output until their limit is reached.
                if process.spec.on_limit == "block":
                    self.limits.release(process, int(str(message["out"])), int(str(message["err"])))
                answer({})
            case "unbound":
                limit = message["output_limit"]
                self.limits.unbound(process, None if limit is None else int(str(limit)))
                answer({})
            case "close_output":
                self._close_output(process, message, answer)
            case _:
                answer(_unknown(operation))

    def _stop(self, process: ManagedProcess, message: _Message, answer: Answer) -> None:
        if not (process.phase == Phase.DONE and process.is_empty):
            self.stops.stop(
                process,
                CauseCode(int(str(message["cause"]))),
                grace_s=float(str(message["grace_s"])),
                note=str(message.get("note", "")),
            )
        answer({})

    def _signal(self, process: ManagedProcess, message: _Message, answer: Answer) -> None:
        number = int(str(message["signal"]))
        if number not in signal.valid_signals():
            raise ValueError(f"signal {number}")
        if process.phase >= Phase.EXITED and not message.get("whole_tree"):
            answer({"error": "process_ended", "message": "The process has ended."})
            return
        if message.get("whole_group"):
            is_found = self.trees.signal_group(process, number)
        else:
            is_found = self.trees.signal_tree(process, number, whole_tree=bool(message.get("whole_tree")))
        # Of a tree whose command has ended nothing need be left.
        answer({} if is_found or process.phase >= Phase.EXITED else dict(_NOTHING_FOUND))

    def _close_output(self, process: ManagedProcess, message: _Message, answer: Answer) -> None:
        stream = int(str(message["stream"]))
        if process.spec.stdio == "pty" or not 0 <= stream < len(process.streams):
            answer({"error": "invalid_params", "message": "The process has no such pipe."})
            return
        letter = "oe"[stream]
        if process.streams[stream].is_open and letter in process.fds:
            # Closed here and in the shim: without a reading end the command's next write gives SIGPIPE
            # (pipe(7)).
            self.pump.close(process.streams[stream])
            process.close_fd(letter)
            if process.shim is not None:
                with contextlib.suppress(OSError):  # a dead shim holds nothing
                    sockets.send(process.shim.socket, f"close {letter}".encode())
        answer({})

    def lend(self, client: ControlClient, process_id: str, fetch: Callable[[], list[int]]) -> bool:
        """Decide whether descriptors that a client lends for a start may wait; `fetch` receives them at that
        start.
        """
        return is_process_id(process_id) and self.passed_stdin.lend(
            client, process_id, fetch, pid=client.caller.pid, tree=client.tree
        )


def _resize(process: ManagedProcess, message: _Message, answer: Answer) -> None:
    if "m" not in process.fds:
        answer({"error": "no_terminal", "message": "The process has no terminal."})
        return
    set_window_size(process.fds["m"], int(str(message["rows"])), int(str(message["cols"])))
    answer({})


def _if_it_runs(process: ManagedProcess, act: Callable[[ManagedProcess], bool], answer: Answer) -> None:
    """Pause or resume a tree; what is ending, or has ended, is left alone."""
    if process.phase in {Phase.RUNNING, Phase.PAUSED}:
        answer({} if act(process) else dict(_NOTHING_FOUND))
    else:
        answer({"error": "process_ended", "message": "The process is ending or has ended."})


def _subject(message: _Message) -> bytes:
    """Return the key of the process for which a request must wait; empty when it need not wait.

    `input` does not wait: a server that does not get the pipe at once writes through the keeper instead, and
    that waits.
    """
    process_id = str(message.get("id"))
    is_waiting = message.get("op") not in {"lend", "input"}
    return id_to_bytes(process_id) if is_waiting and is_process_id(process_id) else b""


def _refuse_lent_stdin(client: ControlClient, process_id: str, answer: Answer, *, is_lending: bool) -> None:
    """Refuse a descriptor for which `lend` had no place; a server lends none."""
    if client.is_server or not is_lending or not is_process_id(process_id):
        raise ValueError("lend one descriptor for a process id")
    answer({"error": "process_limit", "message": "Too many starts wait for what was lent to them."})


def _unknown(operation: object) -> dict[str, object]:
    text = f"The keeper does not understand the operation {operation!r}."
    return {"error": "invalid_params", "message": text}


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    chunks = []
    offset = 0
    while offset < size and (chunk := os.pread(fd, 1 << 20, offset)):
        chunks.append(chunk)
        offset += len(chunk)
    return b"".join(chunks)
