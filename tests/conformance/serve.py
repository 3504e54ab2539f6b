"""The command `outlive`, whose `serve` offers the conformance suite's fixtures beside the product's tools.

    python -m tests.conformance.serve serve --mcp-port 8888

Test-only. Everything but the added handlers is what `outlive serve` runs. The suite plays a page of this machine, too, and
such a page needs a token that the suite cannot be told: with OUTLIVE_SUITES_TOKEN set it is shown for every request.
"""

import os
from typing import Any
from unittest.mock import patch

from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.app import Application
from outlive.cli import main, running
from tests.conformance.fixtures import extend


class _WithFixtures(Application):
    """The same application with what only its constructor can be given."""

    def __init__(self, *parts: Any, **named: Any) -> None:  # noqa: ANN401 -- passed on as they are
        """Build it."""
        super().__init__(*parts, extend_mcp=extend, **named)
        if token := os.environ.get("OUTLIVE_SUITES_TOKEN"):
            self.asgi = _showing(self.asgi, token.encode())


def _showing(app: ASGIApp, token: bytes) -> ASGIApp:
    async def show(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + token)]}
        await app(scope, receive, send)

    return show


if __name__ == "__main__":
    # No mock: the same class, given what only it can pass on.
    with patch.object(running, "Application", _WithFixtures):
        main.main()
