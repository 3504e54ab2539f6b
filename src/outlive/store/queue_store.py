"""Commands that wait for their group's turn, and the groups' limits, on disk: `QueueStore`.

A waiting command is one file with everything that its start needs, written before it is reported as waiting.
The file is removed after the keeper has answered, so a crash between the two leaves it behind. Opening the
store therefore removes the files of commands that have a process folder: those were started, or withdrawn.
Blocking: run it in a thread. When a command gets its turn is decided in `engine`.
"""

import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence

from outlive.core.documents import decode_json
from outlive.core.identity import ProcessId, is_process_id
from outlive.core.layout import STREAM_FILES, Layout
from outlive.core.lifecycle import Cause
from outlive.core.values import dataclass, field
from outlive.kernel.files import Survives, read_all, read_any, write_prepared, write_whole
from outlive.operations.waiting_starts import GroupKey
from outlive.protocols.frames import COPIED, WITHDRAWN, ExitRecord, decoded, encode_exit
from outlive.protocols.keeper import CauseCode, decode_spec
from outlive.store.used_ids import RemovedIds, SpentIds

_LIMITS = "limits.json"
_ORDER = "order.json"  # ids in the order of their turns, where a caller has moved some
_REMOVED = "removed-ids"  # the ids of processes that were removed
_SPENT = "spent-ids"  # the ids of commands that have waited for an approval
_END = ".end"  # the suffix of a process folder that is being made for a withdrawn command


@dataclass(frozen=True, slots=True)
class WaitingCommand:
    """What the keeper is to start: the encoded spec, the script (empty: none), and secrets, which no file
    holds.
    """

    process_id: ProcessId
    spec: bytes
    script: bytes
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        """The SHA-256, in hex, of everything that decides what runs: an approval of it approves exactly that.

        It covers the very bytes that the keeper will get (program, words, variables with values, folder,
        restrictions, place), the script and the secrets, each preceded by its length, so that no two commands
        have the same bytes.
        """
        secrets = json.dumps(sorted(self.secrets.items())).encode()
        digest = hashlib.sha256(b"outlive approval 1\0")
        for part in (self.process_id.encode(), self.spec, self.script, secrets):
            digest.update(b"%d\0" % len(part) + part)
        return digest.hexdigest()


_Fit = Callable[[Callable[[], None]], None]


def _write_once(write: Callable[[], None]) -> None:
    write()


class QueueStore:
    """The folder `waiting` of a state folder; one writer, the server.

    Attributes:
        spent: The ids of what has waited for an approval; they name nothing else.
        removed: The ids of processes that were removed; they are not started again.
    """

    def __init__(self, layout: Layout, *, fit: _Fit = _write_once) -> None:
        """Make nothing yet. `fit` calls its argument, and makes room for it on a full disk."""
        self._layout = layout
        self._folder = layout.waiting
        self._fit = fit
        self.spent = SpentIds(f"{layout.waiting}/{_SPENT}")
        self.removed = RemovedIds(f"{layout.waiting}/{_REMOVED}")

    def open(self) -> tuple[list[WaitingCommand], dict[GroupKey, int]]:
        """Return the waiting commands in the order of their turns, and the limits.

        A damaged file is left alone and ignored.

        That is oldest first by this server's clock, whatever clock their callers have made their ids by, but
        for those that were moved: they are where they were put, and what came later is behind them.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self.spent.open()
        self.removed.open()
        waiting = []
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(_END):  # a crash came before it was renamed into place
                shutil.rmtree(f"{self._folder}/{name}", ignore_errors=True)
            if name.endswith(Layout.ASIDE):
                self._end_copied(name)
            if not is_process_id(name):
                continue
            process_id = ProcessId(name)
            # Started or withdrawn before a crash: its process folder decides.
            if os.path.exists(self._layout.process(process_id)):
                self.remove(process_id)
                continue
            path = f"{self._folder}/{name}"
            if command := decoded(read_all(path), functools.partial(_decode, process_id)):
                waiting.append(command)
        turns = {name: turn for turn, name in enumerate(self._order())}
        waiting.sort(
            key=lambda one: (turns.get(one.process_id, len(turns)), _created_ns(one), one.process_id)
        )
        return waiting, self._limits()

    def check_unspent(self, process_id: ProcessId) -> None:
        """Let an id pass under which no command has waited for an approval before, and no process was
        removed.

        Raises:
            InvalidState: `process_ended`: its process was removed.
            InvalidRequest: It is spent.
        """
        self.removed.check(process_id)
        self.spent.check(process_id)

    def put(self, command: WaitingCommand) -> None:
        """Store a command; raises OSError when the disk refuses it."""
        self._put(command, survives="kill")

    def _put(self, command: WaitingCommand, *, survives: Survives) -> None:
        head = b"%d\n" % len(command.spec)
        path = f"{self._folder}/{command.process_id}"
        write_whole(path, head + command.spec + command.script, survives=survives)

    def put_asked(self, command: WaitingCommand) -> None:
        """Store a command whose id a person will see: the id names no other command from now on.

        Both survive a power cut: what a person has said yes or no to is asked about once. Raises as `put`
        does.
        """
        self.spent.add(command.process_id)
        self._put(command, survives="power cut")

    def remove(self, process_id: ProcessId) -> None:
        """Remove a command; one that is not there is a success."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._folder}/{process_id}")

    def withdraw(self, command: WaitingCommand, *, cause: Cause, note: str, at_ns: int) -> bool:
        """Put the end of a command where its start would be, for good; False when it has been started.

        The keeper's start and this are both a rename to the same place: the first one decides. A start that
        comes later starts nothing, whichever client sent it (decision 60).

        Args:
            command: The command that does not have to run any more.
            cause: Why,
            note: and at whose request, in one sentence.
            at_ns: The time of the end, Unix.

        Raises:
            OSError: The disk refuses it; nothing is decided.
        """
        ended = ExitRecord(kind="failed", number=0, ended_ns=at_ns, note=WITHDRAWN)
        if not self._put_end(command, ended, cause=cause, note=note):
            return False
        self.remove(command.process_id)
        return True

    def _end_copied(self, name: str) -> None:
        """Record as lost a command that waited when the folder was copied: it waits in the original, or has
        run there.
        """
        path = f"{self._folder}/{name}"
        with contextlib.suppress(OSError, ValueError):
            command = _decode(ProcessId(name.removesuffix(Layout.ASIDE)), read_any(path))
            ended = ExitRecord(kind="lost", number=0, ended_ns=time.time_ns(), note=COPIED)
            self._put_end(command, ended, cause=Cause.NONE, note="")
            os.unlink(path)

    def _put_end(self, command: WaitingCommand, ended: ExitRecord, *, cause: Cause, note: str) -> bool:
        # Made completely under another name first: a process folder is never seen half made.
        made, at_ns = f"{self._folder}/{command.process_id}{_END}", ended.ended_ns
        why = {"cause": int(CauseCode[cause.name]), "note": note, "at_ns": at_ns}
        done = {"out": 0, "err": 0, "descendants": 0, "gaps": False, "closed": True, **why}
        files = {"spec": command.spec, "exit": encode_exit(ended), "done": json.dumps(done).encode()}
        files |= dict.fromkeys((*STREAM_FILES, "idx"), b"")
        try:
            self._fit(lambda: _make_folder(made, files, place=self._layout.process(command.process_id)))
        except _PlaceTaken:
            return False
        return True

    def keep_limits(self, limits: Mapping[GroupKey, int]) -> None:
        """Replace the limits; raises OSError when the disk refuses them."""
        rows = [[principal, name, limit] for (principal, name), limit in sorted(limits.items())]
        write_whole(f"{self._folder}/{_LIMITS}", json.dumps(rows).encode(), survives="power cut")

    def keep_order(self, process_ids: Sequence[str]) -> None:
        """Keep the order of what waits in lines; raises OSError when the disk refuses it."""
        write_whole(f"{self._folder}/{_ORDER}", json.dumps(list(process_ids)).encode())

    def _order(self) -> list[str]:
        raw = read_all(f"{self._folder}/{_ORDER}")
        return decoded(raw, lambda found: [str(name) for name in decode_json(found)]) or []

    def _limits(self) -> dict[GroupKey, int]:
        return decoded(read_all(f"{self._folder}/{_LIMITS}"), _decode_limits) or {}


def _decode_limits(raw: bytes) -> dict[GroupKey, int]:
    return {(str(principal), str(name)): int(limit) for principal, name, limit in decode_json(raw)}


class _PlaceTaken(Exception):
    """The keeper's start came first."""


def _make_folder(made: str, files: Mapping[str, bytes], *, place: str) -> None:
    """Make a folder with these files and rename it into place; nothing of it is left if that fails."""
    os.mkdir(made, 0o700)
    try:
        for name, content in files.items():
            write_prepared(f"{made}/{name}", content)
        _give_place(made, place)
    except (OSError, _PlaceTaken):
        shutil.rmtree(made, ignore_errors=True)
        raise


def _give_place(made: str, place: str) -> None:
    try:
        os.rename(made, place)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            raise _PlaceTaken from None
        raise


def _created_ns(command: WaitingCommand) -> int:
    """Return when a command was asked for; 0 where its spec does not say it."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        created_ns = decode_spec(command.spec, with_command=False).meta.get("created_ns")
        return created_ns if isinstance(created_ns, int) else 0
    return 0


def _decode(process_id: ProcessId, raw: bytes) -> WaitingCommand:
    head, _, rest = raw.partition(b"\n")
    size = int(head)
    if size > len(rest):
        raise ValueError("the file is torn")
    return WaitingCommand(process_id, rest[:size], rest[size:])
