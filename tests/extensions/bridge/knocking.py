"""The client of the tests' own door (`tests.extensions.bridge.serve`)."""

from typing import Any

from anyio import to_thread

from tests.attacks.attacking import Requests
from tests.extensions.bridge.serve import PATH
from tests.support.server import OutliveServer


class Refused(Exception):
    """The server said no: `code`, `message`, `hint`."""

    def __init__(self, told: dict[str, str]) -> None:
        super().__init__(told)
        self.code, self.message, self.hint = told["error"], told["message"], told["hint"]


class Door:
    """Asks for verbs on terminals, as our own user or with a token."""

    def __init__(self, server: OutliveServer, token: str | None = None) -> None:
        self._ask = Requests(server, token)

    async def __call__(self, verb: str, **members: object) -> Any:  # noqa: ANN401 -- JSON
        """Return the result.

        Raises:
            Refused: There is none.
        """
        body = {"verb": verb, **members}
        reply = await to_thread.run_sync(lambda: self._ask("POST", PATH, body=body))
        if "result" not in reply.body:
            raise Refused(reply.body)
        return reply.body["result"]

    async def refusal(self, verb: str, **members: object) -> Refused:
        """Return why something is refused."""
        try:
            result = await self(verb, **members)
        except Refused as refused:
            return refused
        raise AssertionError(f"{verb} should have been refused, but: {str(result)[:300]}")

    async def vscode(self) -> list[str]:
        """Return the ids of the terminals in VS Code."""
        return [one["terminal_id"] for one in await self("terminals") if one["target"] == "vscode"]
