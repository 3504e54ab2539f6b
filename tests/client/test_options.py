"""The client's options of a start are those of the operation: declared once more, because users see their
types.
"""

import asyncio
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pytest

from outlive.client import AsyncClient, StartOptions
from outlive.client.options import check_names, execute_params
from outlive.core.command import Limits
from outlive.protocols.jsonrpc.params import ExecuteParams

# What the wire calls otherwise, what is said beside the options, and how a connection sends and shows output.
_WIRE_NAMES = {"timeout_s": "timeout", "grace_s": "grace"}
_BESIDE = {"command", "argv"}
_CLIENTS_OWN = {"words", "output", "output_session", "concurrent", "raw", "max_line_bytes"}


def _declared() -> dict[str, Any]:
    return {_WIRE_NAMES.get(name, name): kind for name, kind in typing.get_type_hints(StartOptions).items()}


def _words(kind: object) -> frozenset[str]:
    """Return the words that a type allows, those of a `Literal` anywhere in it."""
    if typing.get_origin(kind) is Literal:
        return frozenset(typing.get_args(kind))
    return frozenset().union(*(map(_words, typing.get_args(kind)))) if typing.get_args(kind) else frozenset()


def test_the_client_has_the_options_of_the_operation_and_no_others() -> None:
    taken = {field.name for field in msgspec.structs.fields(ExecuteParams)}
    assert {*_declared(), *_BESIDE, *_CLIENTS_OWN} == taken


def test_both_take_the_same_words() -> None:
    ours = _declared()
    for field in msgspec.structs.fields(ExecuteParams):
        if field.name not in ours:
            continue
        # `profile` is any text to the client: an earlier one may be asked for a profile of a later server.
        assert _words(ours[field.name]) in {_words(field.type), frozenset()}, field.name


def test_what_the_client_sends_is_read_as_it_was_meant() -> None:
    """Every option at once, with types that JSON does not have."""
    options: StartOptions = {
        "cwd": "/tmp",
        "env": types.MappingProxyType({"A": "1", "B": None}),
        "tags": types.MappingProxyType({"t": "u"}),
        "limits": {"cpu": 5, "cpus": 1.5},
        "timeout_s": 3.5,
        "umask": 0o27,
        "nice": 5,
    }
    sent = execute_params("true", options, process_id="01m81ds7h140vms3gn2qew5vw4")
    read = msgspec.json.decode(msgspec.json.encode(sent), type=ExecuteParams)
    command = read.to_command()
    assert (command.cwd, dict(command.env), command.umask) == ("/tmp", {"A": "1", "B": None}, 0o27)
    assert (command.timeout_s, command.limits) == (3.5, Limits(cpu_s=5, cpus=1.5))
    assert isinstance(sent["tags"], Mapping)


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    async def start(client: AsyncClient) -> None:
        await client.start("true", timout_s=5)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="'timout_s'; did you mean 'timeout_s'"):
        asyncio.run(start(AsyncClient("/nowhere", start_server=False)))
    with pytest.raises(TypeError, match=r"'zzz'$"):
        check_names({"zzz": 1, "cwd": "/"})
