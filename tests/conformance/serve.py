"""The command `outlive`, whose `serve` offers the conformance suite's fixtures beside the product's tools.

    python -m tests.conformance.serve serve --mcp-port 8888

Test-only. Everything but the added handlers is what `outlive serve` runs. No header is added to what the suite sends: it
plays a page of this machine, too, which gets in without a token as far as the scope hello goes.
"""

from typing import Any
from unittest.mock import patch

from outlive.app import Application
from outlive.cli import main
from outlive.cli.server import server_process as running
from tests.conformance.fixtures import extend


class _WithFixtures(Application):
    """The same application with what only its constructor can be given."""

    def __init__(self, *parts: Any, **named: Any) -> None:  # noqa: ANN401 -- passed on as they are
        """Build it."""
        super().__init__(*parts, extend_mcp=extend, **named)


if __name__ == "__main__":
    # No mock: the same class, given what only it can pass on.
    with patch.object(running, "Application", _WithFixtures):
        main.main()
