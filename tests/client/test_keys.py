"""Starts with a key by both clients: the handle is the earlier process's, and says that it is not new."""

from pathlib import Path

import pytest

from outlive.client import AsyncClient, Client, InvalidRequest

pytestmark = pytest.mark.promise("S0.3.key")


def test_a_known_key_gives_the_earlier_process(blocking: Client, tmp_path: Path) -> None:
    first = blocking.start("echo once; exit 3", project=str(tmp_path), key="build")
    assert first.is_new
    again = blocking.start("echo once; exit 3", project=str(tmp_path), key="build")
    assert not again.is_new
    assert again.process_id == first.process_id
    with again.follow() as follow:
        assert b"".join(item.data for item in follow) == b"once\n"  # type: ignore[union-attr] # no gap in five bytes
    info = again.wait(20)
    assert (info.exit_code, info.short_id, info.project, info.key) == (3, "p1", str(tmp_path), "build")
    assert [one.process_id for one in blocking.list(project=str(tmp_path), key="build")] == [first.process_id]
    assert not blocking.get(first.process_id).is_new


def test_a_key_of_another_command_is_refused(blocking: Client, tmp_path: Path) -> None:
    blocking.start("true", project=str(tmp_path), key="build")
    with pytest.raises(InvalidRequest, match="belongs to another command: true") as refused:
        blocking.start("false", project=str(tmp_path), key="build")
    assert refused.value.code == "key_taken"


@pytest.mark.anyio
async def test_a_private_start_with_a_known_key_gives_the_shared_process(
    asynchronous: AsyncClient, tmp_path: Path
) -> None:
    """It is followed like any shared one, over a connection of its own, as often as wanted."""
    shared = await asynchronous.start("echo a", project=str(tmp_path), key="k")
    again = await asynchronous.start("echo a", project=str(tmp_path), key="k", detach=False)
    assert (again.process_id, again.is_new) == (shared.process_id, False)
    one, other = again.follow(), again.follow()
    assert [item.data async for item in one] == [item.data async for item in other] == [b"a\n"]  # type: ignore[union-attr] # as above
    await again.close()
    assert (await shared.wait(20)).exit_code == 0
