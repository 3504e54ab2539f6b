"""Classes of values whose methods are made late are those of the standard library, by everything they do."""

import copy
import dataclasses
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core import values

_T = TypeVar("_T")
_Decorator = Callable[..., Any]


def _family(dataclass: _Decorator, **flags: bool) -> tuple[Any, Any]:
    """Return a class and one that inherits from it."""

    @dataclass(**flags, slots=True)
    class Base:
        known: ClassVar[int] = 7
        first: int
        second: str = "x"
        third: list[int] = dataclasses.field(default_factory=list, compare=False)
        number: int = dataclasses.field(default=3, init=False)

        def twice(self) -> int:
            return 2 * self.first

    @dataclass(**flags, slots=True)
    class Derived(Base):
        fourth: float = 0.5

        def __repr__(self) -> str:
            return f"its own {self.fourth}"

    return Base, Derived


def _seen(call: Callable[[], object]) -> object:
    """Return what a call does: its result as text, or the error's class and words."""
    try:
        return repr(call()).replace("tests.core.test_values.", "")
    except Exception as error:  # noqa: BLE001 -- which one it is, is compared
        return type(error), str(error)


def _have_one_hash(one: object, other: object) -> bool:
    return hash(one) == hash(other)  # both are there: else they could be one by their place in memory


_FLAGS = st.fixed_dictionaries({name: st.booleans() for name in ("frozen", "kw_only", "eq", "order")})


@given(
    flags=_FLAGS,
    first=st.integers(0, 2),
    second=st.sampled_from(["x", "y"]),
    steps=st.permutations(range(13)),
)
def test_in_whatever_order_its_parts_are_asked_for_they_are_the_standard_librarys(
    flags: dict[str, bool], first: int, second: str, steps: list[int]
) -> None:
    def story(dataclass: _Decorator) -> list[object]:
        base, derived = _family(dataclass, **{**flags, "order": flags["order"] and flags["eq"]})
        calls: list[Callable[[], object]] = [
            lambda: base(first=first, second=second),
            lambda: base(first, second),
            lambda: derived(first=first, fourth=1.5),
            base,
            lambda: base(first=first) == base(first=first, second=second),
            lambda: base(first=first) == derived(first=first),
            lambda: base(first=first) < base(first=1),
            lambda: _have_one_hash(derived(first=first), derived(first=first)),
            lambda: [(one.name, one.kw_only, one.compare) for one in dataclasses.fields(derived)],
            lambda: dataclasses.replace(derived(first=first), second="z").second,
            lambda: (
                dataclasses.asdict(base(first=first)),
                base.__match_args__,
                base.known,
                base(first=4).twice(),
            ),
            lambda: setattr(base(first=first), "first", 9),
            lambda: (copy.copy(base(first=first)), copy.deepcopy(derived(first=first)).third),
        ]
        return [_seen(calls[step]) for step in steps]

    assert story(values.dataclass) == story(dataclasses.dataclass)


def test_what_a_class_says_itself_is_kept() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Own(Generic[_T]):
        item: _T
        size: int = 0

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", 5)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

    made = Own("a")
    assert (made.item, made.size, hash(made), made == 7) == ("a", 5, 3, True)
    assert repr(made).endswith("Own(item='a', size=5)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.item
    with pytest.raises(AttributeError):
        object.__setattr__(made, "other", 1)


def test_threads_that_make_the_first_instance_together_each_have_one() -> None:
    for _ in range(50):
        base, derived = _family(values.dataclass, frozen=True, kw_only=True, eq=True, order=False)
        barrier = threading.Barrier(4)
        found: list[int] = []

        def make(
            kind: Callable[..., Any], barrier: threading.Barrier = barrier, found: list[int] = found
        ) -> None:
            barrier.wait()
            found.append(kind(first=1).first)

        threads = [threading.Thread(target=make, args=(kind,)) for kind in (base, derived, base, derived)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [1, 1, 1, 1]


def test_no_methods_are_made_before_one_is_called() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Late:
        field: int = 1

    assert "late" in vars(Late)["__init__"].__qualname__
    assert Late(2).field == 2
    assert "late" not in vars(Late)["__init__"].__qualname__
