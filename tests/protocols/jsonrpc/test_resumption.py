"""What a returning client says in its URL."""

import pytest

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.protocols.jsonrpc.requests import Resumption


def test_nothing_said_is_nothing_to_resume() -> None:
    """S0.14."""
    assert Resumption.parse({}) == Resumption()


def test_one_cursor_means_the_last_process() -> None:
    """S0.14."""
    said = Resumption.parse({"session_id": "s", "cursor": "10.4", "output": "chunk", "more": "x"})
    assert (said.session_id, said.cursor, said.output) == ("s", Cursor(10, 4), "chunk")
    assert said.position("p") == BEGINNING


def test_several_cursors_name_their_processes() -> None:
    """S0.14, S0.13: for clients with concurrent commands."""
    said = Resumption.parse({"cursor": "p:1.2, q:0"})
    assert said.cursor is None
    assert (said.position("p"), said.position("q"), said.position("r")) == (
        Cursor(1, 2),
        BEGINNING,
        BEGINNING,
    )


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"cursor": "x"}, "invalid_cursor"),
        ({"cursor": "p:x"}, "invalid_cursor"),
        ({"cursor": "p:1,"}, "invalid_cursor"),
        ({"cursor": ",".join(["p:1"] * 1001)}, "invalid_cursor"),
        ({"output": "morse"}, "invalid_params"),
    ],
)
def test_nonsense_is_refused(query: dict[str, str], code: str) -> None:
    """S0.11."""
    with pytest.raises(InvalidRequest) as refused:
        Resumption.parse(query)
    assert refused.value.code == code
