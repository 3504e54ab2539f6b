"""Where a process runs: kinds of place in files, and that an unknown one is not taken for another."""

import pytest

from outlive.core.location import HERE, Location, parse_kind


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"backend": "docker", "image": "debian:12", "container": "session-1"}, "container"),
        ({"backend": "far"}, "node"),
        ({"backend": "local", "image": "debian:12"}, "local"),
    ],
)
def test_files_of_the_three_kinds_name_no_kind(members: dict[str, str], kind: str) -> None:
    """They are those of every earlier version, which wrote none."""
    location = Location.decode(members)
    assert location.kind == kind
    assert location.encode() == location.view() == members


def test_a_file_without_a_place_is_of_this_machine() -> None:
    assert Location.decode(None) == HERE
    assert not HERE.is_elsewhere


def test_an_unknown_kind_is_refused_and_not_taken_for_a_node() -> None:
    with pytest.raises(ValueError, match="ray"):
        Location.decode({"backend": "cluster-1", "kind": "ray"})
    with pytest.raises(ValueError, match="ray"):
        parse_kind("ray")


def test_a_kind_that_the_name_does_not_say_is_written_but_not_shown() -> None:
    location = Location(kind="container", backend="podman")
    assert location.encode() == {"backend": "podman", "kind": "container"}
    assert location.view() == {"backend": "podman"}
    assert Location.decode(location.encode()) == location
