"""What changes of tags come to."""

import pytest

from outlive.core.errors import InvalidRequest
from outlive.core.process import MAX_TAGS, merge_tags


def test_a_value_sets_none_removes_and_the_rest_stays() -> None:
    assert merge_tags({"a": "1", "b": "2"}, {"a": None, "c": "", "d": None}) == {"b": "2", "c": ""}
    assert merge_tags({"a": "1"}, {}) == {"a": "1"}


@pytest.mark.parametrize("changes", [{"": "x"}, {"n" * 129: "x"}, {"n": "v" * 1025}])
def test_what_is_too_long_or_has_no_name_is_refused(changes: dict[str, str | None]) -> None:
    with pytest.raises(InvalidRequest):
        merge_tags({}, changes)


def test_there_are_only_so_many() -> None:
    full: dict[str, str | None] = {f"n{number}": "v" for number in range(MAX_TAGS)}
    assert len(merge_tags({}, full)) == MAX_TAGS
    with pytest.raises(InvalidRequest, match="64"):
        merge_tags({"one more": "v"}, full)
    assert len(merge_tags({"one more": "v"}, {**full, "one more": None})) == MAX_TAGS
