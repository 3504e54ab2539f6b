"""A small blocking client of the keeper's local protocol, as a server would be: requests, replies, doorbells.

Single-threaded: doorbells are taken in whenever the client waits for something. A supervisor that dies closes
the connection: `KeeperGone`. `ask_surely` reconnects and asks again, as a server does with what was not
acknowledged.
"""

import contextlib
import json
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

from outlive.core.identity import RANDOM_BYTES, ProcessId, id_to_bytes, new_process_id
from outlive.core.layout import Layout
from outlive.core.spec import Spec
from outlive.kernel import sockets
from outlive.kernel.files import is_written
from outlive.protocols.keeper import (
    MAX_INLINE_BYTES,
    Flags,
    Phase,
    decode_message,
    encode_message,
    encode_spec,
)
from tests.support.doorbells import Doorbell, decode_doorbells
from tests.support.processes import pause_after

Reply = dict[str, object]
_T = TypeVar("_T")
_OPEN = Flags.OUT_OPEN | Flags.ERR_OPEN
PATIENCE_S = 60.0


class KeeperGone(Exception):
    """The supervisor closed the connection."""


class KeeperRefused(Exception):
    """The keeper answered with an error; `reply` has it."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"{reply.get('error')}: {reply.get('message')}")
        self.reply = reply
        self.slug = str(reply.get("error"))


def new_id() -> ProcessId:
    """Return a fresh process id."""
    return new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))


def until(found: Callable[[], _T | None], what: str, *, patience_s: float = PATIENCE_S) -> _T:
    """Poll until `found()` is true and return it."""
    deadline = time.monotonic() + patience_s
    while True:
        begun = time.process_time()
        if result := found():
            return result
        assert time.monotonic() < deadline, f"waited {patience_s:.0f} s in vain: {what}"
        time.sleep(pause_after(time.process_time() - begun, least_s=0.005))


class KeeperClient:
    """One connection at a time, made again when `ensure` (starts the keeper) and `connect` are called again.

    `bells` holds the newest state of each process by key, `completions` how often each one became DONE, and
    `setbacks` every process that was DONE and was later told to be less, or closed and later open, `vanished`
    those that a new supervisor did not mention although they have no completion mark.
    """

    def __init__(self, state_dir: Path, *, ensure: Callable[[], None], role: str = "server") -> None:
        self.layout = Layout(str(state_dir))
        self.bells: dict[bytes, Doorbell] = {}
        self.completions: Counter[bytes] = Counter()
        self.setbacks: list[Doorbell] = []
        self.vanished: list[str] = []
        self._live_ids: dict[bytes, str] = {}
        self._unmentioned: dict[bytes, str] = {}
        self.reconnects = 0
        self._ensure = ensure
        self._role = role
        self._socket: socket.socket | None = None
        self._replies: dict[int, Reply] = {}
        self._number = 0

    def __enter__(self) -> Self:
        """Connect."""
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self.close()

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def connect(self, *, patience_s: float = PATIENCE_S) -> Reply:
        """Connect to the keeper, starting it if nobody serves; returns its answer to hello."""
        deadline = time.monotonic() + patience_s
        while True:
            self.close()
            self._ensure()
            try:
                self._socket = sockets.connect_unix(self.layout.keeper_socket)
                self._unmentioned = dict(self._live_ids)
                return self.ask("hello", role=self._role, pid=os.getpid())
            except (KeeperGone, OSError):
                self.reconnects += 1
                if time.monotonic() > deadline:
                    raise

    # -- requests

    def send(self, op: str, *, payload: bytes = b"", fds: Sequence[int] = (), **fields: object) -> int:
        """Send a request without waiting; returns its number."""
        self._number += 1
        packet = encode_message({"op": op, "req": self._number, **fields}, payload)
        link = self._live()
        try:
            while not sockets.send(link, packet, fds):
                select.select([], [link], [], 1.0)
        except OSError as error:
            self.close()
            raise KeeperGone from error
        return self._number

    def reply(self, number: int, *, patience_s: float = PATIENCE_S) -> Reply:
        """Wait for the reply to a request."""
        deadline = time.monotonic() + patience_s
        while number not in self._replies:
            left = deadline - time.monotonic()
            assert left > 0, f"no reply within {patience_s:.0f} s"
            try:
                self.take_in(left)
            except KeeperGone:
                if number not in self._replies:  # the last word of one that leaves
                    raise
        return self._replies.pop(number)

    def has_reply(self, number: int) -> bool:
        """Tell whether a reply has come already."""
        self.take_in(0.0)
        return number in self._replies

    def ask(self, op: str, *, payload: bytes = b"", fds: Sequence[int] = (), **fields: object) -> Reply:
        """Ask and return the reply; raises `KeeperRefused` when it is an error."""
        reply = self.reply(self.send(op, payload=payload, fds=fds, **fields))
        if not reply["ok"]:
            raise KeeperRefused(reply)
        return reply

    def ask_surely(
        self, op: str, *, payload: bytes = b"", fds: Sequence[int] = (), **fields: object
    ) -> Reply:
        """Ask until there is an answer, through any number of dying supervisors."""
        while True:
            try:
                if self._socket is None:
                    self.connect()
                return self.ask(op, payload=payload, fds=fds, **fields)
            except KeeperGone:
                self.reconnects += 1

    def start(
        self, spec: Spec, *, process_id: ProcessId | None = None, script: bytes = b""
    ) -> tuple[ProcessId, Reply]:
        """Start a command, surely and once; returns its id and the keeper's reply."""
        process_id = process_id or new_id()
        reply = self._start(spec, process_id, script)
        key = id_to_bytes(process_id)
        if reply.get("existing") and is_written(f"{self.layout.process(process_id)}/done"):
            # The answer was lost with a supervisor, and nobody may tell of the end. What was told before it
            # comes first.
            with contextlib.suppress(KeeperGone):
                self.take_in()
            self._ring_from_file(process_id)
        elif key not in self.bells or self.bells[key].phase < Phase.DONE:
            self._live_ids[key] = process_id
        return process_id, reply

    def _start(self, spec: Spec, process_id: ProcessId, script: bytes) -> Reply:
        raw = encode_spec(spec)
        if len(raw) + len(script) <= MAX_INLINE_BYTES:
            return self.ask_surely("start", payload=raw + script, id=process_id, spec_bytes=len(raw))
        memory = os.memfd_create("spec", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(memory), "wb") as file:
                file.write(raw + script)
            return self.ask_surely("start", fds=[memory], id=process_id, spec_bytes=len(raw), in_fd=True)
        finally:
            os.close(memory)

    # -- doorbells

    def _live(self) -> socket.socket:
        if self._socket is None:
            raise KeeperGone
        return self._socket

    def take_in(self, wait_s: float = 0.0) -> None:
        """Take in one packet, waiting at most `wait_s` for it, and everything else that is there."""
        link = self._live()
        if not select.select([link], [], [], wait_s)[0]:
            return
        while (packet := sockets.receive(link)) is not None:
            message, fds = packet
            assert not fds
            if not message:
                self.close()
                raise KeeperGone
            if message[:1] == b"D":
                for bell in decode_doorbells(message):
                    self._ring(bell)
            else:
                reply, _ = decode_message(message)
                self._replies[int(str(reply["req"]))] = reply

    def listen(self, wait_s: float) -> None:
        """Take in what comes, reconnecting when the supervisor is gone."""
        try:
            if self._socket is None:
                self.connect()
            self.take_in(wait_s)
        except KeeperGone:
            self.reconnects += 1

    def _ring(self, bell: Doorbell) -> None:
        if bell.flags & Flags.SYNC:
            self._settle_unmentioned()
            return
        self._unmentioned.pop(bell.key, None)
        before = self.bells.get(bell.key)
        was_done = before is not None and before.phase == Phase.DONE
        if bell.phase == Phase.DONE and not was_done:
            self.completions[bell.key] += 1
        if (
            before is not None
            and was_done
            and (bell.phase != Phase.DONE or bell.flags & ~before.flags & _OPEN)
        ):
            self.setbacks.append(bell)
        self.bells[bell.key] = bell
        if bell.phase == Phase.DONE and not bell.flags & _OPEN:
            self._live_ids.pop(bell.key, None)

    def _settle_unmentioned(self) -> None:
        """Take what a new supervisor does not mention for finished: its files tell the rest."""
        unmentioned, self._unmentioned = self._unmentioned, {}
        for key, process_id in unmentioned.items():
            try:
                self._ring_from_file(process_id)
            except OSError:
                self.vanished.append(process_id)
            self._live_ids.pop(key, None)

    def _ring_from_file(self, process_id: str) -> None:
        done = json.loads(Path(self.layout.process(process_id), "done").read_text())
        key = id_to_bytes(process_id)
        self._ring(Doorbell(key, done["out"], done["err"], 0, 0, Phase.DONE, done["cause"], 0, 0))

    def bell(self, process_id: str) -> Doorbell | None:
        """Return the newest state of a process that has been told."""
        return self.bells.get(id_to_bytes(process_id))

    def wait_bell(
        self,
        process_id: str,
        wanted: Callable[[Doorbell], object],
        what: str,
        *,
        patience_s: float = PATIENCE_S,
    ) -> Doorbell:
        """Wait for a state, reconnecting as often as needed."""
        deadline = time.monotonic() + patience_s
        while (bell := self.bell(process_id)) is None or not wanted(bell):
            left = deadline - time.monotonic()
            assert left > 0, f"waited {patience_s:.0f} s in vain for {what}: {bell}"
            self.listen(min(left, 1.0))
        return bell

    def wait_done(self, process_id: str, *, patience_s: float = PATIENCE_S) -> Doorbell:
        """Wait until the process has ended and its output is whole."""
        return self.wait_bell(
            process_id,
            lambda bell: bell.phase == Phase.DONE,
            f"{process_id} to be done",
            patience_s=patience_s,
        )

    def wait_closed(self, process_id: str, *, patience_s: float = PATIENCE_S) -> Doorbell:
        """Wait until nothing can write any more, either."""
        return self.wait_bell(
            process_id,
            lambda bell: bell.phase == Phase.DONE and not bell.flags & _OPEN,
            f"{process_id} to be closed",
            patience_s=patience_s,
        )
