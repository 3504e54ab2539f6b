"""Which GPUs commands get: whole ones to themselves, and parts of as few as possible."""

from hypothesis import given
from hypothesis import strategies as st

from outlive.placement.gpus import GpuShares

_NAMES = ("0", "1", "2")


def test_whole_ones_are_given_to_one_command_each() -> None:
    gpus = GpuShares(_NAMES)
    assert gpus.take("a", 2000) == ("0", "1")
    assert gpus.take("b", 2000) is None
    assert gpus.take("b", 1000) == ("2",)
    gpus.free("a")
    assert gpus.take("c", 1000) == ("0",)
    assert gpus.take("b", 1000) == ("2",)  # asking again changes nothing


def test_parts_are_given_of_one_that_is_begun() -> None:
    gpus = GpuShares(_NAMES)
    assert gpus.take("a", 500) == ("0",)
    assert gpus.take("b", 250) == ("0",)
    assert gpus.take("c", 500) == ("1",)
    assert gpus.take("d", 250) == ("0",)
    assert gpus.take("e", 1500) == ("2", "1")
    assert gpus.take("f", 1000) is None


def test_what_runs_since_an_earlier_server_keeps_its_own() -> None:
    gpus = GpuShares(_NAMES)
    gpus.adopt("a", ("1", "gone"), 1500)
    assert gpus.take("b", 2000) == ("0", "2")
    assert gpus.take("c", 250) is None
    gpus.free("a")
    assert gpus.take("c", 250) == ("1",)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(0, 9), st.integers(1, 3000)),
            st.tuples(st.just("free"), st.integers(0, 9), st.just(0)),
        ),
        max_size=60,
    )
)
def test_no_gpu_is_given_twice(steps: list[tuple[str, int, int]]) -> None:
    gpus = GpuShares(_NAMES)
    held: dict[str, tuple[int, tuple[str, ...]]] = {}
    for deed, number, milli in steps:
        name = f"p{number}"
        if deed == "free":
            gpus.free(name)
            held.pop(name, None)
        elif name not in held and (found := gpus.take(name, milli)) is not None:
            held[name] = (milli, found)
            assert len(set(found)) == len(found) == -(-milli // 1000)
        whole = [gpu for milli, found in held.values() for gpu in found[: milli // 1000]]
        assert len(whole) == len(set(whole))
        assert sum(milli for milli, _ in held.values()) <= 3000
        parts = dict.fromkeys(_NAMES, 0)
        for amount, found in held.values():
            for gpu in found[amount // 1000 :]:
                parts[gpu] += amount % 1000
        assert all(share <= 1000 and not (share and gpu in whole) for gpu, share in parts.items())
    for name in list(held):
        gpus.free(name)
    assert gpus.take("all", 3000) is not None
