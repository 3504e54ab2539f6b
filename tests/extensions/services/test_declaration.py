"""What a service may declare, and what services need of each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.extensions.services.declaration import (
    MAX_SERVICES,
    Backoff,
    ReadyWhen,
    ServiceRequest,
    check_services,
    split_address,
    with_needed,
)
from outlive.operations.requests import convert_request


def _services(**after: list[str]) -> dict[str, ServiceRequest]:
    return {name: ServiceRequest(command="true", after=tuple(others)) for name, others in after.items()}


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"command": ""}, "empty"),
        ({"command": []}, "argv"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "a", "environment": {"A=B": ""}}, "="),
        ({"command": "a", "ready": {}}, "exactly one"),
        ({"command": "a", "ready": {"port": 1, "text": "x"}}, "exactly one"),
        ({"command": "a", "ready": {"exit": False}}, "exactly one"),
        ({"command": "a", "ready": {"port": 70000}}, "65535"),
        ({"command": "a", "ready": {"exit": True}, "restart": "always"}, "always"),
        ({"command": "a", "restart": "sometimes"}, "sometimes"),
        ({"command": "a", "stop_signal": "NOPE"}, "NOPE"),
        ({"command": "a", "grace": -1}, "from 0"),
        ({"command": "a", "folder": "relative"}, "folder"),
        ({"command": "a", "comand": "b"}, "comand"),
    ],
)
def test_what_could_never_run_is_refused_with_a_sentence(members: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        convert_request(members, ServiceRequest)
    assert word in refused.value.message


@pytest.mark.parametrize(
    "address",
    [
        "https://localhost/",
        "http://example.org/",
        "http://localhost.evil.com/",
        "http://127.0.0.1@evil.com/",
        "http://user@localhost/",
        "http://localhost:80/a b",
        "http://localhost/\r\nX: y",
        "http://localhost:99999/",
        "file:///etc/passwd",
        "localhost:80",
    ],
)
def test_readiness_asks_no_address_but_those_of_this_machine(address: str) -> None:
    with pytest.raises(InvalidRequest):
        convert_request({"http": address}, ReadyWhen)


def test_an_address_is_split_for_the_request() -> None:
    assert split_address("http://localhost:8000/health?deep=1") == ("localhost", 8000, "/health?deep=1")
    assert split_address("http://[::1]") == ("::1", 80, "/")


@pytest.mark.parametrize(
    "ring", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"x": [], "a": ["x", "b"], "b": ["c"], "c": ["x", "a"]}]
)
def test_services_that_wait_for_each_other_are_refused_by_name(ring: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidRequest, match="waits for") as refused:
        check_services(_services(**ring))
    assert refused.value.details["member"] == "after"


def test_an_unknown_service_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidRequest, match="Did you mean 'database'"):
        check_services(_services(web=["databse"], database=[]))


@pytest.mark.parametrize("name", ["", "1st", "-a", "a b", "a/b", "a" * 64, "ä", "a\n"])
def test_a_name_that_no_process_could_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_services({name: ServiceRequest(command="true")})


def test_a_project_has_some_services_and_not_too_many() -> None:
    with pytest.raises(InvalidRequest):
        check_services({})
    many = {f"s{number}": ServiceRequest(command="true") for number in range(MAX_SERVICES)}
    check_services(many)
    with pytest.raises(InvalidRequest, match=str(MAX_SERVICES)):
        check_services({**many, "more": ServiceRequest(command="true")})


def test_a_service_brings_along_all_that_it_waits_for() -> None:
    services = _services(a=["b", "c"], b=["c"], c=[], d=["a"])
    assert with_needed(["a"], services) == {"a", "b", "c"}


@given(st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0.1, 1e6))
def test_a_rest_is_never_longer_than_the_longest(tries: int, first: float, most: float) -> None:
    backoff = Backoff(first=first, most=most)
    assert 0 <= backoff.after(tries) <= backoff.after(tries + 1) <= most


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), unique=True), min_size=1)
)
def test_services_pass_exactly_if_they_can_be_put_in_an_order(after: dict[str, list[str]]) -> None:
    services = _services(**after)
    left, is_moving = dict(after), True
    while is_moving:
        can = [
            name
            for name, others in left.items()
            if all(other in after and other not in left for other in others)
        ]
        is_moving = bool(can)
        for name in can:
            del left[name]
    if left:
        with pytest.raises(InvalidRequest):
            check_services(services)
    else:
        check_services(services)
