"""Orders, answers and reports of leases: what is sent is what arrives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.needs import Amounts
from outlive.extensions.ray.leases import (
    DriverMessage,
    LeaseAnswer,
    LeaseOrder,
    LeaseReport,
    LeasingNode,
    SeenLease,
    decode_message,
    decode_order,
    line,
)

_TEXTS = st.text(max_size=20)
_AMOUNTS = st.builds(Amounts, cpu_milli=st.integers(0, 2**40), memory_bytes=st.integers(0, 2**60))
_ORDERS = st.builds(
    LeaseOrder, number=st.integers(1, 2**60), process_id=_TEXTS, node=_TEXTS, amounts=_AMOUNTS
)
_NODES = st.builds(
    LeasingNode, name=_TEXTS, capacity=_AMOUNTS, free=_AMOUNTS, labels=st.dictionaries(_TEXTS, _TEXTS)
)
_LEASES = st.builds(SeenLease, process_id=_TEXTS, node=_TEXTS, is_ours=st.booleans())
_REPORTS = st.builds(
    LeaseReport,
    nodes=st.lists(_NODES, max_size=3).map(tuple),
    leases=st.lists(_LEASES, max_size=3).map(tuple),
)
_ANSWERS = st.builds(LeaseAnswer, number=st.integers(1, 2**60), is_done=st.booleans(), reason=_TEXTS)


@given(_ORDERS)
def test_an_order_arrives_as_it_was_sent(order: LeaseOrder) -> None:
    sent = line(order)
    assert sent.count(b"\n") == 1
    assert decode_order(sent) == order


@given(
    st.one_of(
        _REPORTS.map(lambda one: DriverMessage(report=one)),
        _ANSWERS.map(lambda one: DriverMessage(answer=one)),
    )
)
def test_what_a_driver_says_arrives_as_it_was_sent(message: DriverMessage) -> None:
    sent = line(message)
    assert sent.count(b"\n") == 1
    assert decode_message(sent) == message


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"answer": {"number": "1"}}', b"\xff"])
def test_anything_else_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_message(raw)
    with pytest.raises(ValueError, match=r"."):
        decode_order(raw)
