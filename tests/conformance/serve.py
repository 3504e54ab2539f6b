"""The command `outlive`, whose `serve` offers the conformance suite's fixtures beside the product's tools.

    python -m tests.conformance.serve serve --mcp-port 8888

Test-only. Everything but the added rows of its table of methods is what `outlive serve` runs. No header is
added to what the suite sends: it plays a page of this machine, too, which gets in without a token as far as
the scope hello goes.
"""

from unittest.mock import patch

from outlive.cli import main
from outlive.frontends.mcp.http import endpoint
from tests.conformance.fixtures import FixtureEndpoint

if __name__ == "__main__":
    # No mock: a class of the same family.
    with patch.object(endpoint, "McpEndpoint", FixtureEndpoint):
        main.main()
