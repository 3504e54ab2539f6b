"""Answers find their requests, whatever comes in whatever order."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outlive.extensions.bridge.messages import (
    Answer,
    Broken,
    Failure,
    Ignored,
    Pong,
    RequestKind,
    RequestMatcher,
    Settled,
    Success,
    TerminalCreated,
)

_ASKED: tuple[RequestKind, ...] = ("ping", "create_terminal", "execute", "close_terminal")


def _answer(kind: str, request_id: str) -> Answer:
    answers: dict[str, Answer] = {
        "pong": Pong(request_id),
        "created": TerminalCreated(request_id, "t", "t"),
        "success": Success(request_id, "o"),
        "failure": Failure(request_id, "e"),
        "broken": Broken("b", request_id),
    }
    return answers[kind]


_FITTING = {
    "ping": {"pong"},
    "create_terminal": {"created", "failure", "broken"},
    "execute": {"success", "failure", "broken"},
    "close_terminal": {"success", "failure", "broken"},
}


@pytest.mark.promise("S3.3")
class Conversation(RuleBasedStateMachine):
    """A model: open requests by id, and what became of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange = RequestMatcher()
        self.open: dict[str, RequestKind] = {}
        self.over: dict[str, str] = {}
        self.numbers = itertools.count()

    @rule(asking=st.sampled_from(_ASKED))
    def ask(self, asking: RequestKind) -> None:
        request_id = f"r{next(self.numbers)}"
        self.exchange.begin(request_id, asking)
        self.open[request_id] = asking

    @precondition(lambda self: self.open)
    @rule(data=st.data(), kind=st.sampled_from(["pong", "created", "success", "failure", "broken"]))
    def answer(self, data: st.DataObject, kind: str) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.open)))
        asking = self.open[request_id]
        found = self.exchange.take(_answer(kind, request_id))
        if kind in _FITTING[asking]:
            assert found == Settled(request_id, asking, _answer(kind, request_id))
        elif asking == "ping":
            assert found == Ignored("not a pong")
            return
        else:
            assert isinstance(found, Settled)
            assert isinstance(found.answer, Broken)
        del self.open[request_id]
        self.over[request_id] = "again"

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def run_out_of_time(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.open)))
        assert self.exchange.expire(request_id)
        assert not self.exchange.expire(request_id)
        del self.open[request_id]
        self.over[request_id] = "late"

    @precondition(lambda self: self.over)
    @rule(data=st.data(), kind=st.sampled_from(["pong", "created", "success", "failure", "broken"]))
    def repeat(self, data: st.DataObject, kind: str) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.over)))
        assert self.exchange.take(_answer(kind, request_id)) == Ignored(self.over[request_id])  # type: ignore[arg-type] # one of its words

    @rule(kind=st.sampled_from(["pong", "created", "success", "failure", "broken"]))
    def make_up(self, kind: str) -> None:
        assert self.exchange.take(_answer(kind, "never asked")) == Ignored("unasked")
        assert self.exchange.take(Broken("no id")) == Ignored("unasked")

    @invariant()
    def as_many_wait_as_should(self) -> None:
        assert len(self.exchange) == len(self.open)


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=60, deadline=None)


@pytest.mark.promise("S3.3")
def test_only_so_many_ended_requests_are_remembered() -> None:
    exchange = RequestMatcher()
    for number in range(300):
        exchange.begin(f"r{number}", "ping")
        exchange.take(Pong(f"r{number}"))
    assert exchange.take(Pong("r0")) == Ignored("unasked")
    assert exchange.take(Pong("r299")) == Ignored("again")


def test_an_id_is_never_used_again() -> None:
    exchange = RequestMatcher()
    exchange.begin("r", "ping")
    with pytest.raises(AssertionError, match="unique"):
        exchange.begin("r", "execute")
