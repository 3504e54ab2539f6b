"""The command `outlive`, whose `serve` offers the conformance suite's fixtures beside the product's tools.

    python -m tests.conformance.serve serve --mcp-port 8888

Test-only. Everything but the added handlers is what `outlive serve` runs.
"""

from functools import partial
from unittest.mock import patch

from outlive.app import Application
from outlive.cli import main, running
from tests.conformance.fixtures import extend

if __name__ == "__main__":
    # No mock: the same class, given what only it can pass on.
    with patch.object(running, "Application", partial(Application, extend_mcp=extend)):
        main.main()
