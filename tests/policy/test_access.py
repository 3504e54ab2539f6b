"""What is kept of tokens, which one a secret is, and who may approve."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import AccessDenied, StoreCorrupt
from outlive.policy.access import (
    NAME,
    Access,
    Scope,
    Token,
    approver_of,
    decode_tokens,
    digest_of,
    encode_tokens,
    find_token,
)

_NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
_TOKENS = st.builds(
    Token,
    name=st.from_regex(NAME, fullmatch=True),
    scope=st.sampled_from(Scope),
    digest=st.text().map(digest_of),
    created_at=st.datetimes(timezones=st.just(UTC)),
    expires_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    acts_as_user=st.booleans(),
    acts_for=st.none() | st.just("cluster:ray"),
)


def _token(secret: str, *, name: str = "t", expires_s: float | None = None) -> Token:
    expires_at = None if expires_s is None else _NOW + timedelta(seconds=expires_s)
    return Token(name=name, scope=Scope.RUN, digest=digest_of(secret), created_at=_NOW, expires_at=expires_at)


@given(st.lists(_TOKENS))
def test_what_was_written_is_read_again(tokens: list[Token]) -> None:
    assert decode_tokens(encode_tokens(tokens)) == tuple(tokens)


def test_an_empty_file_keeps_none() -> None:
    assert decode_tokens(b"") == ()


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"{}", b'{"tokens": 1}', b'{"tokens": [{}]}', b'{"tokens": [{"name": "a"}]}', b"\xff"],
)
def test_anything_else_is_corrupt_and_says_what_to_do(content: bytes) -> None:
    with pytest.raises(StoreCorrupt) as refused:
        decode_tokens(content)
    assert "tokens.json" in refused.value.hint


@given(st.text(), st.text())
def test_a_secret_finds_its_own_token_and_no_other(own: str, other: str) -> None:
    tokens = [_token(own, name="a"), _token(own + "x", name="b")]
    found = find_token(tokens, own, now=_NOW)
    assert found is not None
    assert (found.name, found.principal(1000)) == ("a", "token:a")
    assert other in {own, own + "x"} or find_token(tokens, other, now=_NOW) is None


def test_tokens_of_several_servers_may_count_as_one_caller() -> None:
    tokens = [replace(_token(name, name=name), acts_for="cluster:x") for name in ("a", "b")]
    assert {one.principal(1000) for one in decode_tokens(encode_tokens(tokens))} == {"cluster:x"}


def test_a_token_counts_until_the_moment_it_expires() -> None:
    assert find_token([_token("s", expires_s=1)], "s", now=_NOW) is not None
    assert find_token([_token("s", expires_s=0)], "s", now=_NOW) is None
    assert find_token([_token("s", expires_s=-1), _token("s", name="later")], "s", now=_NOW) is not None


def test_an_administrator_outside_of_our_trees_is_named_with_his_address() -> None:
    access = Access(principal="uid:1000", scope=Scope.ADMIN, address="unix pid 7")
    assert approver_of(access) == "uid:1000 (unix pid 7)"
    assert approver_of(Access(principal="token:me", scope=Scope.ADMIN)) == "token:me"


@pytest.mark.parametrize(
    ("scope", "inside"), [(Scope.RUN, None), (Scope.READ, None), (Scope.ADMIN, "01k9zq3v8d4t6r2m5x7b1n0c9f")]
)
def test_neither_a_narrower_scope_nor_what_was_started_here_may_approve(
    scope: Scope, inside: str | None
) -> None:
    with pytest.raises(AccessDenied) as refused:
        approver_of(Access(principal="uid:1000", scope=scope, inside=inside))
    assert refused.value.code == "scope_missing"
