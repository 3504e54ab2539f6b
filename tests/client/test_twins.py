"""The two clients cannot drift apart, and what nobody uses is not imported."""

import inspect
import subprocess
import sys

import pytest

import outlive.client
from outlive.client import (
    AsyncClient,
    AsyncEvents,
    AsyncFollow,
    AsyncProcess,
    AsyncProjectServices,
    Client,
    Events,
    Follow,
    Process,
    ProjectServices,
)

_TWINS = [
    (AsyncClient, Client),
    (AsyncProcess, Process),
    (AsyncFollow, Follow),
    (AsyncEvents, Events),
    (AsyncProjectServices, ProjectServices),
]
_PROTOCOLS = {
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}
_SHOWN = {*_PROTOCOLS, *_PROTOCOLS.values()}
_ONLY_ASYNC = {"world"}  # how to wait: the blocking client has answered that


def _offers(kind: type) -> dict[str, inspect.Signature]:
    """Return the methods that a class itself offers, by the name that the blocking twin gives them."""
    return {
        _PROTOCOLS.get(name, name): inspect.signature(member)
        for part in reversed(kind.__mro__[:-1])
        for name, member in vars(part).items()
        if inspect.isfunction(member) and (not name.startswith("_") or name in _SHOWN)
    }


@pytest.mark.parametrize(("asynchronous", "blocking"), _TWINS)
def test_both_twins_offer_the_same_methods_with_the_same_parameters(
    asynchronous: type, blocking: type
) -> None:
    ours, theirs = _offers(asynchronous), _offers(blocking)
    methods = {name for name in theirs if name in ours}
    assert set(ours) == set(theirs)
    for name in methods:
        assert list(ours[name].parameters.values()) == list(theirs[name].parameters.values()), name


@pytest.mark.parametrize(("asynchronous", "blocking"), _TWINS)
def test_every_method_shows_its_name_and_what_it_does(asynchronous: type, blocking: type) -> None:
    """Methods of the blocking twin are derived, and some of the others: users see neither."""
    for kind in (asynchronous, blocking):
        for name, member in vars(kind).items():
            if inspect.isfunction(member) and not name.startswith("_"):
                assert member.__name__ == name
                assert member.__doc__


def test_both_clients_are_made_in_the_same_way() -> None:
    ours = inspect.signature(AsyncClient).parameters
    theirs = inspect.signature(Client).parameters
    assert {name: ours[name].default for name in ours if name not in _ONLY_ASYNC} == {
        name: theirs[name].default for name in theirs
    }


def test_everything_public_is_exported() -> None:
    for name in outlive.client.__all__:
        assert getattr(outlive.client, name).__doc__


def test_importing_the_client_imports_neither_an_event_loop_nor_a_websocket() -> None:
    """Half of the time that a short program takes would be theirs."""
    code = (
        "import sys, outlive.client; print([name for name in ('asyncio', 'websockets', 'ssl', 'msgspec', "
        "'orjson') if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert said.stdout == "[]\n"
    blocking = (
        "import sys; from outlive.client import Client; import outlive.client.wire; "
        "print('asyncio' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", blocking], capture_output=True, text=True, check=True, timeout=30
    )
    assert said.stdout == "False\n"
