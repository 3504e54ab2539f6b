"""Commands nobody should send, but somebody will: megabytes of text, odd names, a flood of requests."""

import json

import anyio
import pytest
from anyio import to_thread

from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


@pytest.mark.promise("S0.3", "S0.bad.long-command")
@pytest.mark.parametrize("megabytes", [1, 3])
async def test_a_command_of_megabytes_runs(client: RpcClient, megabytes: int) -> None:
    """Bad input: a script of any length must not meet the limit of argv (E2BIG)."""
    padding = "x" * (megabytes * 1_000_000)
    run = await client.run(f"text='{padding}'; echo ${{#text}}; exit 4")
    assert run.stdout == f"{megabytes * 1_000_000}\n"
    assert run.exit_code == 4


@pytest.mark.promise("S0.3.stdin", "S0.bad.long-command")
async def test_a_long_script_still_has_its_own_stdin(client: RpcClient) -> None:
    """Bad input: however the long text travels, stdin stays what was asked for."""
    padding = ":\n" * 300_000
    result = await client.execute(f'{padding}read line; echo "got $line"', stdin="pipe")
    await client.request("write", data="it\n")
    assert (await client.finish(result)).stdout == "got it\n"


@pytest.mark.promise("S0.3.argv", "S0.11.hint", "S0.bad.long-command")
async def test_one_argument_that_is_too_long_is_a_clear_failure(client: RpcClient) -> None:
    """Bad input: argv has the kernel's limit of 128 KiB a word; the message says what to do instead."""
    failure = await client.failure("execute", argv=["printf", "%s", "x" * 200_000])
    assert failure.code in (-32602, -32603)
    assert failure.reason == "argument_too_long"
    assert failure.hint


@pytest.mark.promise("S0.3")
async def test_a_command_of_many_lines_is_one_script(client: RpcClient) -> None:
    """S0.3: command is what a person would type into a shell, newlines and all."""
    run = await client.run("for n in 1 2\ndo\n  echo $n\ndone\ncat <<E\nhere: $((1 + 1))\nE\n# comment")
    assert run.stdout == "1\n2\nhere: 2\n"


@pytest.mark.promise("S0.3", "S0.6.utf8")
async def test_text_of_all_languages_passes_through_a_command(client: RpcClient) -> None:
    """S0.6: UTF-8 in, UTF-8 out."""
    text = "grüße, 世界, \u202e\u0645\u0631\u062d\u0628\u0627, 😀, e\u0301"
    assert (await client.run(argv=["printf", "%s", text])).stdout == text
    assert (await client.run(f"echo '{text}'")).stdout == text + "\n"


@pytest.mark.promise("S0.bad.command", "S0.11.hint")
async def test_a_lone_surrogate_in_a_command_is_no_crash(client: RpcClient) -> None:
    """Bad input: JSON can spell text that no program can be given: refused, the connection goes on."""
    await client.send_raw('{"jsonrpc":"2.0","id":1,"method":"execute","params":{"command":"echo \\ud800"}}')
    answer = await client.until(lambda message: "method" not in message)
    assert answer["error"]["code"] in (-32602, -32700)
    assert answer["error"]["data"]["hint"]
    await client.barrier()


@pytest.mark.promise("S0.bad.json")
async def test_deeply_nested_json_is_no_crash(client: RpcClient) -> None:
    """Bad input: 100 000 brackets get an error, not a stack overflow."""
    await client.send_raw("[" * 100_000 + "]" * 100_000)
    answer = await client.until(lambda message: "method" not in message)
    errors = answer.get("batch", [answer])
    assert errors[0]["error"]["code"] in (-32700, -32600)
    await client.barrier()


@pytest.mark.promise("S0.19.busy")
async def test_a_thousand_requests_at_once_are_all_answered(client: RpcClient) -> None:
    """S0.19: answers come for every id, in bounded memory."""
    wanted = set(range(10_000, 11_000))
    for number in wanted:
        await client.send_raw(json.dumps({"jsonrpc": "2.0", "id": number, "method": "list"}))
    answered: set[object] = set()
    with anyio.fail_after(30):
        while answered != wanted:
            answered.add((await client.until(lambda message: "result" in message))["id"])


@pytest.mark.promise("S0.13.concurrent", "S0.9")
async def test_fifty_commands_at_once_end_with_their_own_codes(server: OutliveServer) -> None:
    """S0.13: concurrent processes are not mixed up."""
    async with connect(server.url) as client:
        requests = [
            await client.send("execute", {"command": f"echo {number}; exit {number}", "concurrent": True})
            for number in range(50)
        ]
        started = [(await client.response(request))["result"] for request in requests]
        for number, result in enumerate(started):
            run = await client.finish(result)
            assert (run.stdout, run.exit_code) == (f"{number}\n", number)


@pytest.mark.promise("S0.3.argv", "S0.bad.argv")
async def test_hostile_program_names_do_not_confuse_anything(client: RpcClient) -> None:
    """Bad input: names with blanks, quotes, dashes and newlines are data."""
    for word in ("-n", "--", "a\nb", "'; echo x; '", "$(echo x)", "\\", "\x1b[31m"):
        assert (await client.run(argv=["printf", "%s", "--", word])).exit_code == 0
        failure = await client.failure("execute", argv=[f"no such {word}"])
        assert (failure.code, failure.reason) == (-32603, "not_found")


@pytest.mark.promise("S0.14")
async def test_a_server_with_open_connections_stops_when_told(own_server: OutliveServer) -> None:
    """S0.14: a connected client and a running command do not delay SIGTERM beyond patience."""
    async with connect(own_server.url) as client:
        await client.execute("sleep 1000")
        with anyio.fail_after(20):
            await to_thread.run_sync(own_server.stop)
    assert not own_server.is_running
