"""Terminals, as a client asks for them: `AsyncClient.terminals`."""

from collections.abc import Mapping
from typing import Any, Literal

from outlive.client.link import ANSWER_S, Link

TerminalCall = Literal["list", "create", "execute", "read", "write", "resize", "close"]
_REPEATABLE = frozenset({"list", "read", "resize"})  # the others would open, type or close something twice
_DEFAULT_WAIT_S = 45.0  # of `execute`, where neither the caller nor the server's operator says more


class AsyncTerminals:
    """The seven calls of docs/terminals.md."""

    def __init__(self, link: Link) -> None:
        """Ask over the client's own connection."""
        self._link = link

    async def call(self, call: TerminalCall, **members: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- JSON, as the page has it
        """Make a call of docs/terminals.md ("execute" for `terminal_execute`) and return the members of its answer.

        Args:
            call: Which.
            **members: Its parameters, by name; None leaves one out.

        Raises:
            ProcessNotFound: `terminal_not_found`.
            InvalidState: `terminal_busy`: something runs there already.
            BackendUnavailable: `server_lost`: the server went away meanwhile, and whether it was done is not known.
            OutliveError: As that page says.
        """
        params = {name: value for name, value in members.items() if value is not None}
        wait_s = float(params.get("wait_s", _DEFAULT_WAIT_S)) if call == "execute" else 0.0
        return await self._link.request(
            f"terminal_{call}", params, answer_s=ANSWER_S + wait_s, is_repeatable=call in _REPEATABLE
        )
