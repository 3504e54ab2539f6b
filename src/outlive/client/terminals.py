"""The calls of docs/terminals.md by the Python client: `AsyncTerminals`, and `ClientTerminals` without an event loop."""

from collections.abc import Mapping
from typing import Any, Literal

from outlive.client.link import ANSWER_S, Link
from outlive.client.runtime import run

TerminalCall = Literal["list", "create", "execute", "read", "write", "resize", "close"]
_REPEATABLE = frozenset({"list", "read", "resize"})  # the others would open, type or close something twice
_DEFAULT_WAIT_S = 45.0  # of `execute`, unless the caller or the server's operator sets another time


class AsyncTerminals:
    """The seven calls of docs/terminals.md."""

    def __init__(self, link: Link) -> None:
        """Send the calls over the client's own connection."""
        self._link = link

    async def call(self, call: TerminalCall, **members: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- JSON, as the page has it
        """Make a call of docs/terminals.md ("execute" for `terminal_execute`) and return the members of its answer.

        Args:
            call: Which.
            **members: Its parameters, by name; None leaves one out.

        Raises:
            ProcessNotFound: `terminal_not_found`.
            InvalidState: `terminal_busy`: something runs there already.
            BackendUnavailable: `server_lost`: the server went away meanwhile, and whether the call was done is not known.
            OutliveError: The others of that page.
        """
        params = {name: value for name, value in members.items() if value is not None}
        wait_s = float(params.get("wait_s", _DEFAULT_WAIT_S)) if call == "execute" else 0.0
        return await self._link.request(
            f"terminal_{call}", params, answer_s=ANSWER_S + wait_s, is_repeatable=call in _REPEATABLE
        )


class ClientTerminals:
    """`AsyncTerminals` for programs without an event loop."""

    def __init__(self, terminals: AsyncTerminals) -> None:
        """Wait for what `terminals` does."""
        self._terminals = terminals

    def call(self, call: TerminalCall, **members: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- JSON
        """Make a call of docs/terminals.md; see `AsyncTerminals.call`."""
        return run(self._terminals.call(call, **members))
