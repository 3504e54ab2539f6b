"""What nodes and gateways say before a session: each side takes the other's messages, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import ProtocolViolation
from outlive.extensions.fleet.joined.messages import (
    Here,
    Kept,
    NotLetIn,
    Probe,
    Renewed,
    ServeNow,
    ToGateway,
    ToNode,
    Welcome,
    encode_joined,
    read_for_gateway,
    read_for_node,
)

_TAGS = st.dictionaries(st.text(min_size=1, max_size=128), st.text(), max_size=8)
_WORDS = st.dictionaries(st.text(), st.text(), max_size=8)
_SECRETS = st.text(max_size=64)
_TO_NODE = st.one_of(
    st.builds(Welcome, node=st.text(min_size=1, max_size=64), credential=_SECRETS),
    st.builds(NotLetIn, error=st.text(), message=st.text()),
    st.builds(Renewed, credential=_SECRETS),
    st.just(Probe()),
    st.builds(ServeNow, query=_WORDS),
)
_TO_GATEWAY = st.one_of(st.builds(Kept, labels=_TAGS, done=st.booleans()), st.just(Here()))


@given(_TO_NODE)
def test_what_a_gateway_says_is_read_by_a_node_and_by_no_gateway(message: ToNode) -> None:
    text = encode_joined(message)
    assert read_for_node(text) == message
    with pytest.raises(ProtocolViolation):
        read_for_gateway(text)


@given(_TO_GATEWAY)
def test_what_a_node_says_is_read_by_a_gateway_and_by_no_node(message: ToGateway) -> None:
    text = encode_joined(message)
    assert read_for_gateway(text.encode()) == message
    with pytest.raises(ProtocolViolation):
        read_for_node(text)


@given(st.one_of(st.text(), st.binary()))
def test_anything_else_is_refused_in_one_way(frame: str | bytes) -> None:
    for read in (read_for_node, read_for_gateway):
        with pytest.raises(ProtocolViolation):
            read(frame)


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {"x" * 129: "x"}, {"x": "y" * 1025}, {f"n{number}": "" for number in range(65)}]
)
def test_labels_beyond_what_an_operator_may_give_are_refused(labels: dict[str, str]) -> None:
    with pytest.raises(ProtocolViolation):
        read_for_gateway(encode_joined(Kept(labels=labels)))
