"""docs/jsonrpc.md says what the door does: tables as in the code, messages as on the wire, programs that
run.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from anyio import to_thread
from msgspec.structs import fields

from outlive.frontends.jsonrpc.methods import methods
from outlive.operations.requests import decode_request
from outlive.protocols.jsonrpc.answers import EVENT_NAMES
from outlive.protocols.jsonrpc.members import NOTIFICATIONS
from tests.docs.pages import blocks, generated, page, section, table_rows, words
from tests.docs.tables import PAGE, parts
from tests.support.rpc import RpcClient
from tests.support.server import OutliveServer

_TEXT = page(PAGE)
_SHAPES = {name: method.shape for name, method in methods().items()}
_OPTIONAL = {one.encode_name for one in fields(NOTIFICATIONS["process.output"]) if not one.required}
_ONE_OF = {"command", "argv"}  # null by default, but exactly one is needed: the page shows no default


@pytest.mark.parametrize("name", sorted(parts()))
def test_generated_tables_are_up_to_date(name: str) -> None:
    assert generated(_TEXT, name) == parts()[name], "run `python -m tests.docs.tables`"


def test_every_method_has_a_section() -> None:
    for method in methods():
        assert section(_TEXT, f"### `{method}`")


def _shown_default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default
    if value is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is msgspec.NODEFAULT or value is msgspec.UNSET or field.name in _ONE_OF:
        return ""
    return f"`{json.dumps(value)}`"


@pytest.mark.parametrize("method", sorted(_SHAPES))
def test_every_parameter_is_told_with_its_default(method: str) -> None:
    told = {words(row[0])[0]: row[1] for row in table_rows(section(_TEXT, f"### `{method}`"), "parameter")}
    assert told == {field.name: _shown_default(field) for field in msgspec.structs.fields(_SHAPES[method])}


async def test_every_member_of_a_process_is_told(client: RpcClient) -> None:
    run = await client.run("true")
    told = [word for row in table_rows(section(_TEXT, "### `get`"), "member") for word in words(row[0])]
    assert sorted(told) == sorted(await client.request("get", process_id=run.process_id))


def test_every_event_is_told() -> None:
    rows = table_rows(section(_TEXT, "### `events`"), "event")
    assert [word for row in rows for word in words(row[0])] == list(EVENT_NAMES)


def _told_notifications() -> dict[str, set[str]]:
    rows = table_rows(section(_TEXT, "## Notifications"), "notification")
    return {words(row[0])[0]: set(words(row[1])) for row in rows}


async def test_every_notification_is_told_with_its_params(client: RpcClient) -> None:
    """Makes the door send each of them once."""
    await client.request("events")
    await client.run("(sleep 0.3) & echo quick")
    await client.notification("process.closed")
    await client.request("events", follow=False)
    await client.run(
        "seq 1 20000", output_limit=8192
    )  # read as it comes, some of it may be seen before it goes
    limited = str(client.messages[-1]["params"]["process_id"])
    await client.request("attach", process_id=limited)
    await client.completed(limited)
    process_id = (await client.execute("echo begun; sleep 60"))["process_id"]
    for verb in ("PAUSE", "RESUME", "CANCEL"):
        await client.request("control", type=verb, process_id=process_id)
    await client.completed(process_id)
    for _ in range(2):  # the second one waits until its group has room
        await client.execute("sleep 60", group="one", group_limit=1, concurrent=True, detach=False)
    await client.notification("process.queued")
    seen = {"connected": set(client.hello)}
    for message in client.messages:
        if "method" in message:
            seen.setdefault(message["method"], set()).update(message["params"])
    seen["process.output"] -= _OPTIONAL
    assert seen == _told_notifications()
    needed = {
        name: {one.encode_name for one in fields(told) if one.required}
        for name, told in NOTIFICATIONS.items()
    }
    assert seen == needed


def _requests_and_responses() -> list[dict[str, object]]:
    lines = [line for block in blocks(_TEXT, "json") for line in block.splitlines()]
    return [json.loads(line) for line in lines]


def test_every_request_shown_is_a_request() -> None:
    requests = [message for message in _requests_and_responses() if "id" in message and "method" in message]
    assert requests
    for request in requests:
        shape = methods()[str(request["method"])].shape
        decode_request(json.dumps(request["params"]).encode(), shape)


def test_every_notification_shown_has_the_told_params() -> None:
    shown = [message for message in _requests_and_responses() if "method" in message and "id" not in message]
    assert shown
    for message in shown:
        params = message["params"]
        assert isinstance(params, dict)
        assert set(params) - _OPTIONAL == _told_notifications()[str(message["method"])]


_EXPECTED: list[Callable[[str], bool]] = [
    lambda said: said.endswith("hello\nexit code 3\n"),
    lambda said: said == "100000 bytes\n",
    lambda said: said == "begun\nresumed\n40 lines, each once; exit code 0\n",
]


@pytest.mark.promise("S0.1", "S0.14.resume", "S0.3.binary")
@pytest.mark.parametrize("number", range(len(_EXPECTED)))
async def test_every_program_shown_runs(server: OutliveServer, tmp_path: Path, number: int) -> None:
    programs = blocks(_TEXT, "python")
    assert len(programs) == len(_EXPECTED)
    assert "ws://127.0.0.1:8003/ws/mcp" in programs[number]
    program = tmp_path / "program.py"
    program.write_text(programs[number].replace("ws://127.0.0.1:8003/ws/mcp", server.url))
    ran = await to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-W", "error", str(program)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    )
    assert ran.returncode == 0, ran.stderr
    assert _EXPECTED[number](ran.stdout), ran.stdout


@pytest.mark.promise("S0.12.shells")
def test_the_page_says_that_a_list_with_a_shell_allows_everything() -> None:
    said = section(_TEXT, "## Which commands may run")
    assert "A list with `bash` in it allows everything." in said.replace("**", "")
