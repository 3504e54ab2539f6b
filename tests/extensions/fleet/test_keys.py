"""A node's process belongs to a project of the server that asked for it; the node knows nothing of that."""

from pathlib import Path

import pytest

from outlive.client import Client
from tests.extensions.fleet.pairs import output_of

pytestmark = pytest.mark.promise("S0.19.list.project")


def test_project_key_and_short_id_are_the_servers_own(near: Client, far: Client, tmp_path: Path) -> None:
    first = near.start("echo there", backend="far", project=str(tmp_path), key="k")
    again = near.start("echo there", backend="far", project=str(tmp_path), key="k")
    assert (again.process_id, again.is_new) == (first.process_id, False)
    assert output_of(again) == (b"there\n", b"")
    here, there = near.get(first.process_id).info(), far.get(first.process_id).info()
    assert (here.short_id, here.project, here.key) == ("p1", str(tmp_path), "k")
    assert (there.project, there.key) == (None, None)
    # On the node another caller may have the same key for another command.
    assert far.start("true", project=str(tmp_path), key="k").is_new
