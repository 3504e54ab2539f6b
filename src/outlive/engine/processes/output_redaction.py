"""What is hidden of each process's output: `Redaction` joins the setting, the values of its secrets, and what
its folder says.

Hands every `Process` what its log is read through, and notes in the folder where the values are before they
are forgotten.

Values of secret variables: handed to a process, known to the server as long as they may be needed, in no
file.

What is written down of them are their names. After a restart of the server the values of what still runs are
read from the processes themselves.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from outlive.core.errors import InvalidRequest, OutliveError
from outlive.core.process import ProcessRecord
from outlive.core.redactions import redacted_member
from outlive.core.values import dataclass, field
from outlive.policy.redaction import Redactor
from outlive.store.folder import UNFILTERED
from outlive.store.log_mask import Hiding, read_values, write_masks
from outlive.store.output_log import OutputLog

_MAX_COUNT = 64
_MAX_BYTES = 64 * 1024  # together; they travel in one packet to the keeper (208 KiB)
_MAX_IN_MEMORY = 96 * 1024  # with the caller's environment: half of that packet is left for the spec
_MAX_KEPT_BYTES = 4 * 1024 * 1024  # of all processes; beyond it those of the oldest starts are forgotten
_OURS = "OUTLIVE_"
TOKEN_NAME = "OUTLIVE_TOKEN"  # noqa: S105 -- the variable's name


def check_secrets(
    secrets: Mapping[str, str], caller_env: Mapping[str, str], *, is_granted: bool = False
) -> None:
    """Refuse what no environment can hold, or what would take a variable of ours but a token that was
    granted.

    `caller_env` is the caller's environment, checked elsewhere: it travels to the keeper with the secrets.

    Raises:
        InvalidRequest: A name or a value is impossible, or there are too many; no message holds a value.
    """
    if len(secrets) > _MAX_COUNT:
        raise InvalidRequest("invalid_params", f"env_secrets: more than {_MAX_COUNT} variables.")
    size = 0
    for name, value in secrets.items():
        if is_granted and name == TOKEN_NAME:
            continue
        if not name or "=" in name or "\0" in name or not name.isascii() or name.startswith(_OURS):
            raise InvalidRequest("invalid_params", f"env_secrets: not a name for a secret: {name[:40]!r}.")
        try:
            size += len(name) + len(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            text = f"env_secrets: half of a surrogate pair in the value of {name[:40]}."
            raise InvalidRequest("invalid_params", text) from None
        if "\0" in value:
            raise InvalidRequest("invalid_params", f"env_secrets: NUL in the value of {name[:40]}.")
    if size > _MAX_BYTES:
        raise InvalidRequest("invalid_params", f"env_secrets: {size} bytes; {_MAX_BYTES} are the most.")
    size += sum(
        len(name) + len(value.encode("utf-8", "surrogateescape")) for name, value in caller_env.items()
    )
    if size > _MAX_IN_MEMORY:
        text = f"The caller's environment and env_secrets have {size} bytes; {_MAX_IN_MEMORY} are the most."
        raise InvalidRequest("invalid_params", text, hint="Unset the largest variables of the host.")


@dataclass(eq=False, slots=True, kw_only=True)
class Secrets:
    """Values by process id, also of processes that have ended: hiding them in output needs them then, too."""

    _values: dict[str, dict[str, str]] = field(default_factory=dict, init=False, repr=False)
    _bytes: int = field(default=0, init=False)

    def of(self, process_id: str) -> Mapping[str, str]:
        """Return the values of a process by name, as far as they are known."""
        return self._values.get(process_id, {})

    def keep(self, process_id: str, values: Mapping[str, str]) -> None:
        """Remember the values of a process."""
        if not values:
            return
        self.forget(process_id)
        self._values[process_id] = dict(values)
        self._bytes += _size(values)
        while self._bytes > _MAX_KEPT_BYTES and len(self._values) > 1:
            self.forget(next(iter(self._values)))

    def forget(self, process_id: str) -> None:
        """Drop the values of a process; that there are none is a success."""
        self._bytes -= _size(self._values.pop(process_id, {}))

    def recover(self, record: ProcessRecord) -> None:
        """Read the values of a process that runs from itself (proc(5) environ).

        Blocking: run it in a thread.
        """
        if record.secret_names and record.pid is not None and not record.location.is_elsewhere:
            self.keep(record.process_id, read_values(record.pid, record.secret_names))


def _size(values: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in values.items())


_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class TextMask:
    """Takes out of texts what `redactor` hides (None: nothing), and counts it: `count` is of all texts
    together.

    Made anew for each answer.
    """

    redactor: Redactor | None
    count: int = 0

    def __call__(self, text: str) -> str:
        """Return a text without its secrets."""
        if self.redactor is None:
            return text
        masked, count = self.redactor.mask_counting(text)
        self.count += count
        return masked


@dataclass(eq=False, slots=True)
class Redaction:
    """Makes the `Hiding` of processes. `redactor` has what is hidden everywhere; used on the event loop.

    Without `hides_values` the values of `env_secrets` are shown, too.
    """

    redactor: Redactor
    secrets: Secrets
    hides_values: bool = True
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def hiding(
        self, record: ProcessRecord, *, is_over: Callable[[], bool], held: Callable[[], None]
    ) -> Hiding:
        """Return what is hidden of a process."""
        redactor, needs_masks = self.redactor, False
        if record.secret_names and self.hides_values:
            # Not one of the values may be missing: half of the secrets shown would be worse than nothing at
            # all.
            values = self._known(record)
            needs_masks = not values
            if values:
                redactor = redactor.with_values(values)
        return Hiding(redactor=redactor, needs_masks=needs_masks, is_over=is_over, held=held)

    def note_masks(self, record: ProcessRecord, folder: str) -> None:
        """Have it noted in the folder of an ended process where its secrets are.

        In a thread, some time later.
        """
        if not self.hides_values or not self._known(record):
            return
        task = asyncio.get_running_loop().create_task(self._note(record, folder), name="note masks")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def texts(self, secrets: Mapping[str, str]) -> TextMask:
        """Return what takes secrets out of a command's texts, these values (by name) among them."""
        if not secrets or not self.hides_values:
            return TextMask(self.redactor)
        return TextMask(self.redactor.with_values(map(_bytes_of, secrets.values())))

    def texts_of(self, process_id: str) -> TextMask:
        """Return what hides secrets in texts about one process, the values that it was given included."""
        return self.texts(self.secrets.of(process_id))

    def finish(self, error: OutliveError, secrets: Mapping[str, str] = MappingProxyType({})) -> None:
        """Hide secrets in an error as a door sends it; `secrets` are the values that its request brought.

        The door does so, with the whole of it: a sentence may repeat any word of a request, wherever it was
        made, and what is refused before anything is started has been through no other mask.
        """
        hide_error(error, self.texts(secrets))

    async def close(self) -> None:
        """Return when everything is noted."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _note(self, record: ProcessRecord, folder: str) -> None:
        redactor = Redactor(patterns=False, values=self._known(record))
        sizes = (record.stdout_bytes, record.stderr_bytes)
        try:
            async with self._turn:  # one at a time: a process has ended, and soon its streams are closed
                await asyncio.to_thread(_write_all_masks, folder, redactor, sizes)
        except FileNotFoundError:
            return  # the process was removed meanwhile
        except OSError as error:
            # Not noted means that everything of it is hidden once the values are forgotten.
            extra = {"process_id": record.process_id, "reason": error.strerror}
            _logger.warning("where a process's secrets are could not be noted", extra=extra)

    def _known(self, record: ProcessRecord) -> list[bytes]:
        values = self.secrets.of(record.process_id)
        if any(name not in values for name in record.secret_names):
            return []
        return [os.fsencode(values[name]) for name in record.secret_names]


def _write_all_masks(folder: str, redactor: Redactor, sizes: tuple[int, int]) -> None:
    """Note where secrets are in the output, and in what is kept beside it. Blocking.

    Raises:
        OSError: The disk refuses it, or the folder is gone.
    """
    parts = {folder: sizes}
    beside = f"{folder}/{UNFILTERED}"
    with contextlib.suppress(FileNotFoundError):
        parts[beside] = (os.lstat(f"{beside}/out").st_size, 0)
    for part, its_sizes in parts.items():
        log = OutputLog(part)
        try:
            write_masks(log, part, redactor, its_sizes)
        finally:
            log.close()


def hide_error(error: OutliveError, hide: TextMask) -> None:
    """Take secrets out of an error: its sentence, its hint and its details may name the command's words.

    How many they were is one more of its details, `redacted`.
    """
    before = hide.count
    error.message = hide(error.message)
    error.hint = hide(error.hint)
    details = {name: hidden_value(value, hide) for name, value in error.details.items()}
    error.details = MappingProxyType({**details, **redacted_member(hide.count - before)})
    error.args = (error.message,)


def hidden_value(value: object, hide: TextMask) -> object:
    """Return a detail without secrets: text, or lists and objects of it; numbers and all else stay."""
    match value:
        case str():
            return hide(value)
        case list() | tuple():
            return [hidden_value(one, hide) for one in value]
        case Mapping():
            return {name: hidden_value(one, hide) for name, one in value.items()}
    return value


def _bytes_of(value: str) -> bytes:
    """Return a value as a process has it.

    One that no process can have (it is refused yet) as near as can be.
    """
    try:
        return os.fsencode(value)
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
