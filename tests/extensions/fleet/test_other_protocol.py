"""A server that speaks another protocol: clients and servers refuse it by its number, and try nothing
else.
"""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive import PROTOCOL
from outlive.client import Client, ProtocolViolation
from tests.extensions.fleet.pairs import a_token, node_state, wait_until
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.thorough

_CODE = (
    "import outlive; outlive.PROTOCOL += 1; outlive.__version__ = '9.8.7'; from outlive.cli.main "
    "import main; main()"
)
_SAID = f"outlive 9.8.7) speaks protocol {PROTOCOL + 1}"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server of another version."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OUTLIVE_TEST_COMMAND", shlex.join([sys.executable, "-c", _CODE]))
        server = OutliveServer(tmp_path / "other")
        server.start()
    yield server
    server.close()


def test_clients_and_verbs_refuse_it(other: OutliveServer) -> None:
    with (
        pytest.raises(ProtocolViolation, match="speaks protocol") as refused,
        Client(other.state_dir) as client,
    ):
        client.list()
    assert refused.value.code == "protocol_mismatch"
    for words in (("run", "-c", "true"), ("ps",)):
        told = run_outlive(*words, state_dir=other.state_dir)
        assert told.returncode != 0
        assert _SAID in told.stderr
        assert "Install the same version" in told.stderr


def test_as_a_node_it_is_away_and_why_is_said(other: OutliveServer, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"far {a_token(other, 'near')}\n")
    args = ("--node", f"far=ws://127.0.0.1:{other.port}/ws/mcp", "--node-tokens", str(tokens))
    with OutliveServer(tmp_path / "near", args=args) as near:
        wait_until(lambda: "protocol" in (node_state(near)["reason"] or ""))
        state = node_state(near)
        assert (state["state"], _SAID in state["reason"]) == ("away", True)
        assert "Install the same version" in state["hint"]
