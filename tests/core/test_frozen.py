"""Dataclasses that are made quickly: what `dataclass` promises of them stays true."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from outlive.core.frozen import frozen, made_quickly, thawed


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """As `dataclass` makes it."""

    name: str
    count: int = 3
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    hidden: str = field(default="", repr=False)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """The same."""

    name: str
    count: int = 3
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    hidden: str = field(default="", repr=False)


def test_it_takes_what_dataclass_would_take() -> None:
    plain, quick = (inspect.signature(cls).parameters.values() for cls in (Plain, Quick))
    assert [(one.name, one.kind) for one in quick] == [(one.name, one.kind) for one in plain]
    with pytest.raises(TypeError, match="name"):
        Quick()  # type: ignore[call-arg] # that is the point
    with pytest.raises(TypeError, match="other"):
        Quick(name="a", other=1)  # type: ignore[call-arg] # as above


def test_it_is_what_dataclass_would_make() -> None:
    plain, quick = Plain(name="a", hidden="b"), Quick(name="a", hidden="b")
    assert dataclasses.asdict(quick) == dataclasses.asdict(plain)
    assert repr(quick) == repr(plain).replace("Plain", "Quick")
    assert type(quick) is Quick
    assert quick == Quick(name="a", hidden="b") != Quick(name="a", hidden="c")
    assert hash(quick) == hash(plain)
    assert quick.tags is not Quick(name="a").tags


def test_it_cannot_be_changed() -> None:
    quick = Quick(name="a")
    with pytest.raises(FrozenInstanceError):
        quick.name = "b"  # type: ignore[misc] # that is the point
    with pytest.raises(FrozenInstanceError):
        del quick.name
    assert quick == Quick(name="a")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301
def test_copies_are_frozen(copied: object) -> None:
    quick = Quick(name="a", count=4, tags={"b": "c"})
    assert callable(copied)
    again = copied(quick)
    assert (again, type(again)) == (quick, Quick)
    assert dataclasses.replace(quick, count=5) == Quick(name="a", count=5, tags={"b": "c"})


def test_a_draft_is_a_copy_that_may_be_changed_until_it_is_frozen() -> None:
    quick = Quick(name="a", count=4)
    draft = thawed(quick)
    draft.count = 5
    with pytest.raises(AttributeError):
        draft.other = 1
    again = frozen(draft)
    assert (again, type(again)) == (Quick(name="a", count=5), Quick)
    assert quick.count == 4
    with pytest.raises(FrozenInstanceError):
        again.count = 6
