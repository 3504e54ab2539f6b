"""What a node keeps of the servers that it has joined: whole or not at all, for its owner only, and a mark
for the keeper.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.extensions.fleet.gateway_files import GatewayEntry, GatewayFiles
from outlive.kernel.state_files import is_server_wanted

_ENTRY = GatewayEntry(
    name="gateway.example",
    url="wss://gateway.example:8003/node",
    node="far",
    credential="olv_node_secret",
    ca="/etc/ca.pem",
    labels={"rack": "3"},
)


def test_an_entry_is_read_as_it_was_put_and_the_last_one_takes_the_folder_with_it(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    files = GatewayFiles(layout)
    assert files.read() == []
    other = replace(_ENTRY, name="other", credential="olv_node_other")
    for entry in (_ENTRY, other, replace(_ENTRY, credential="olv_node_newer")):
        files.put(entry)
    assert files.read() == [replace(_ENTRY, credential="olv_node_newer"), other]
    assert "olv_node" not in repr(_ENTRY)
    for path in (tmp_path / "gateways").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "gateways").stat().st_mode & 0o777 == 0o700
    assert is_server_wanted(layout)
    files.remove(other.name)
    assert is_server_wanted(layout)
    files.remove(_ENTRY.name)
    files.remove(_ENTRY.name)
    assert not is_server_wanted(layout)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"url": "x"}', b"\xff", b'{"labels": 3}'])
def test_a_damaged_file_counts_as_none_and_stays(tmp_path: Path, content: bytes) -> None:
    files = GatewayFiles(Layout(str(tmp_path)))
    files.put(_ENTRY)
    path = tmp_path / "gateways" / f"{_ENTRY.name}.json"
    path.write_bytes(content)
    (tmp_path / "gateways" / "half.json.new").write_bytes(b"{")  # of a server that was killed
    assert files.read() == []
    assert path.read_bytes() == content
