"""The keys of leases in Ray's table: read as they were written, and what other programs write there ends
nothing.
"""

from hypothesis import given
from hypothesis import strategies as st

from outlive.extensions.ray.driver.lease_keys import LeaseKey, read_keys

_IDS = st.text(st.characters(codec="utf-8", exclude_characters="/"))


@given(st.builds(LeaseKey, st.text(st.characters(codec="utf-8")), _IDS, _IDS))
def test_a_key_is_read_as_it_was_written(key: LeaseKey) -> None:
    assert read_keys([key.encode()]) == ([key], [])


@given(st.lists(st.binary(max_size=40)))
def test_whatever_stands_in_the_table_is_read_or_passed_over(raws: list[bytes]) -> None:
    ours = LeaseKey("a/b", "p", "n")
    keys, odd = read_keys([b"lease/x", b"lease/\xff/p/n", *raws, ours.encode()])
    assert keys[-1] == ours
    assert odd[:2] == [b"lease/x", b"lease/\xff/p/n"]
    assert len(keys) + len(odd) == len(raws) + 3
