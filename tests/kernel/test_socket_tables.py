"""Whose a socket is, by netlink and from /proc: both must say the same about real connections."""

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from outlive.kernel.socket_tables import Address, SocketTable, find_in_proc

_KINDS = {
    "v4": (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
    "v6": (socket.AF_INET6, "::1", "::1"),
    "mapped": (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1"),
}


@contextlib.contextmanager
def _connected(kind: str) -> Iterator[tuple[socket.socket, Address, Address]]:
    """Yield a client's socket, its own end and the other one, as an accepting server sees them."""
    family, dialled, bound = _KINDS[kind]
    with (
        socket.socket(socket.AF_INET6 if ":" in bound else socket.AF_INET) as listener,
        socket.socket(family) as client,
    ):
        try:
            listener.bind((bound, 0))
            listener.listen()
            client.connect((dialled, listener.getsockname()[1]))
        except OSError as error:
            pytest.skip(f"this machine has none: {error}")
        accepted, remote = listener.accept()
        with accepted:
            yield client, remote[:2], accepted.getsockname()[:2]


@pytest.fixture
def table() -> SocketTable:
    return SocketTable()


@pytest.mark.parametrize("kind", _KINDS)
def test_a_connection_is_found_by_its_four_numbers_with_user_and_inode(table: SocketTable, kind: str) -> None:
    with _connected(kind) as (client, own, other):
        inode = os.fstat(client.fileno()).st_ino
        for found in (table.find(own, other), find_in_proc(own, other)):
            assert found is not None
            assert (found.uid, found.inode) == (os.geteuid(), inode)


@pytest.mark.parametrize("kind", _KINDS)
def test_one_that_was_closed_or_never_was_is_nobodys(table: SocketTable, kind: str) -> None:
    with _connected(kind) as (client, own, other):
        client.close()
        for find in (table.find, find_in_proc):
            assert find(own, other) is None
            assert find((own[0], 1), other) is None
            assert find(other, (own[0], 1)) is None  # the listener on that port is not meant


def test_without_netlink_the_tables_are_read(table: SocketTable) -> None:
    assert table.is_quick
    with _connected("v4") as (_, own, other):
        table.is_quick = False
        assert table.find(own, other) is not None
        assert find_in_proc(own, other, root="/nowhere") is None
