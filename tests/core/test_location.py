"""Where a process runs: kinds of place in files, and that an unknown one is not taken for another."""

import pytest

from outlive.core.location import HERE, Location, parse_kind


def test_a_file_without_a_place_is_of_this_machine() -> None:
    assert Location.decode(None) == HERE
    assert not HERE.is_elsewhere


def test_an_unknown_kind_is_refused_and_not_taken_for_a_node() -> None:
    with pytest.raises(ValueError, match="ray"):
        Location.decode({"backend": "cluster-1", "kind": "ray"})
    with pytest.raises(ValueError, match="ray"):
        parse_kind("ray")


@pytest.mark.parametrize(
    ("location", "view"),
    [
        (
            Location(kind="container", backend="docker", image="debian:12", container="session-1"),
            {"backend": "docker", "image": "debian:12", "container": "session-1"},
        ),
        (Location(kind="node", backend="far"), {"backend": "far"}),
        (
            Location(kind="local", backend="local", image="debian:12"),
            {"backend": "local", "image": "debian:12"},
        ),
    ],
)
def test_the_kind_is_written_but_not_shown(location: Location, view: dict[str, str]) -> None:
    assert location.encode() == {**view, "kind": location.kind}
    assert location.view() == view
    assert Location.decode(location.encode()) == location
