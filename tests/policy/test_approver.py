"""Who may approve."""

import pytest

from outlive.core.errors import AccessDenied
from outlive.policy.access import Access, Scope, approver_of


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
