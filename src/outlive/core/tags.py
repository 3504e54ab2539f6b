"""Changing a process's tags: which stay, which are set, which are removed (RFC 7396). Pure."""

from collections.abc import Mapping

from outlive.core.errors import InvalidRequest

MAX_TAGS = 64
MAX_TAG_NAME = 128  # characters
MAX_TAG_VALUE = 1024  # characters


def check_tags(tags: Mapping[str, str]) -> None:
    """Do nothing for tags that a process may have; the same check for every frontend.

    Raises:
        InvalidRequest: As `merge_tags`.
    """
    if tags:
        merge_tags({}, tags)


def merge_tags(tags: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return `tags` with `changes`: a value sets a tag, None removes it, tags that are not named stay.

    Raises:
        InvalidRequest: A name is empty, a text too long, or there would be more than 64.
    """
    for name, value in changes.items():
        if not 1 <= len(name) <= MAX_TAG_NAME:
            raise InvalidRequest("invalid_params", f"tags: a name has 1 to {MAX_TAG_NAME} characters.")
        if value is not None and len(value) > MAX_TAG_VALUE:
            raise InvalidRequest("invalid_params", f"tags: a value has at most {MAX_TAG_VALUE} characters.")
    merged = {name: value for name, value in {**tags, **changes}.items() if value is not None}
    if len(merged) > MAX_TAGS:
        raise InvalidRequest("invalid_params", f"tags: a process may have {MAX_TAGS} of them.")
    return merged
