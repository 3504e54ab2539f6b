"""Values of secret variables: handed to a process, known to the server as long as they may be needed, in no file.

What is written down of them are their names. After a restart of the server the values of what still runs are read
from the processes themselves.
"""

from collections.abc import Mapping

from outlive.core.errors import InvalidRequest
from outlive.core.process import ProcessRecord
from outlive.store.secret_values import read_values

_MAX_COUNT = 64
_MAX_BYTES = 64 * 1024  # together; they travel in one packet to the keeper (208 KiB)
_MAX_KEPT_BYTES = 4 * 1024 * 1024  # of all processes; beyond it those of the oldest starts are forgotten
_OURS = "OUTLIVE_"
TOKEN_NAME = "OUTLIVE_TOKEN"  # noqa: S105 -- the variable's name


def check_secrets(secrets: Mapping[str, str], *, is_granted: bool = False) -> None:
    """Refuse what no environment can hold, or what would take a variable of ours but a token that was granted.

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


class Secrets:
    """Values by process id, also of processes that have ended: whoever hides them in output needs them then, too."""

    def __init__(self) -> None:
        """Know none."""
        self._values: dict[str, dict[str, str]] = {}
        self._bytes = 0

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
        """Read the values of a process that runs from itself (proc(5) environ). Blocking: run it in a thread."""
        if record.secret_names and record.pid is not None:
            self.keep(record.process_id, read_values(record.pid, record.secret_names))


def _size(values: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in values.items())
