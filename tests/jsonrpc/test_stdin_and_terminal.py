"""Input: a pipe or a terminal; prompts arrive although their line is not finished."""

import hashlib
import json

import pytest

from tests.support.rpc import Message, RpcClient, outputs

pytestmark = pytest.mark.anyio


def _is_partial(params: Message) -> bool:
    return params.get("partial") is True


@pytest.mark.promise("S0.6.prompt", "S0.3.pty", "S0.19.write")
async def test_a_prompt_on_a_terminal_arrives_as_a_partial_line(client: RpcClient) -> None:
    """S0.6: with pty a partial line that stays idle is sent, marked partial:true.

    The answer reaches the program.
    """
    result = await client.execute("read -p 'name? ' name; echo \"hi $name\"; exit 3", pty=True)
    prompt = await client.output(result["process_id"], "name? ")
    assert _is_partial(prompt)
    assert (prompt["data"], prompt["type"], prompt["end"]) == ("name? ", "stdout", 6)
    await client.request("write", process_id=result["process_id"], data="bob\n")
    run = await client.finish(result)
    assert run.stdout == "name? bob\r\nhi bob\r\n"  # the terminal echoes and turns "\n" into "\r\n"
    assert run.exit_code == 3
    assert run.stderr == ""


@pytest.mark.promise("S0.6.prompt", "S0.19.write")
async def test_a_prompt_of_a_program_with_a_stdin_pipe_arrives_too(client: RpcClient) -> None:
    """S0.6: stdin "pipe" shows partial lines as well; the pieces of a line add up to the line."""
    result = await client.execute("printf 'name? '; read name; echo \"hi $name\"", stdin="pipe")
    prompt = await client.output(result["process_id"], "name? ")
    assert _is_partial(prompt)
    await client.request("write", process_id=result["process_id"], data="eve\n")
    run = await client.finish(result)
    assert run.stdout == "name? hi eve\n"
    ends = [params["end"] for params in outputs(run.messages, run.process_id)]
    assert ends[-1] == len(run.stdout)


@pytest.mark.promise("S0.19.close-stdin", "S0.19.write")
async def test_close_stdin_is_the_end_of_the_input(client: RpcClient) -> None:
    """S0.19: write and close_stdin; without a process id they mean the one that runs."""
    result = await client.execute("cat; echo over", stdin="pipe")
    await client.request("write", data="one\n")
    await client.output(result["process_id"], "one")
    await client.request("write", data="two")
    await client.request("close_stdin")
    run = await client.finish(result)
    assert run.stdout == "one\ntwoover\n"
    assert run.exit_code == 0


@pytest.mark.promise("S0.19.write")
async def test_much_input_passes_unharmed(client: RpcClient) -> None:
    """S0.19: more than a pipe holds; the program counts what came."""
    result = await client.execute("sha256sum", stdin="pipe")
    text = "".join(f"line {number} äöü\n" for number in range(4000))
    for start in range(0, len(text), 10_000):
        await client.request("write", data=text[start : start + 10_000])
    await client.request("close_stdin")
    run = await client.finish(result)
    assert run.stdout.split()[0] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.promise("S0.19.write", "S0.11.hint")
async def test_write_without_a_stdin_pipe_is_refused(client: RpcClient) -> None:
    """S0.11: reason stdin_closed, and the hint says how to get one."""
    result = await client.execute("sleep 1000")
    failure = await client.failure("write", process_id=result["process_id"], data="x")
    assert failure.reason == "stdin_closed"
    assert "stdin" in failure.hint
    await client.request("control", type="CANCEL")
    await client.completed(result["process_id"])


@pytest.mark.promise("S0.3.pty", "W.cursor.merged")
async def test_a_terminal_is_a_terminal_of_the_asked_size(client: RpcClient) -> None:
    """S0.3: pty, rows, cols; it is the controlling terminal."""
    run = await client.run(
        "test -t 0 && test -t 1 && test -t 2 && stty size && : < /dev/tty", pty=True, rows=33, cols=111
    )
    assert run.stdout == "33 111\r\n"
    assert run.exit_code == 0
    assert run.completed["cursor"] == "8.0"


@pytest.mark.promise("S0.19.resize")
async def test_resize_reaches_the_program(client: RpcClient) -> None:
    """S0.19: resize sends SIGWINCH and the new size is there."""
    command = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.02; done"
    result = await client.execute(command, pty=True, rows=10, cols=20)
    await client.output(result["process_id"], "ready")
    await client.request("resize", process_id=result["process_id"], rows=40, cols=120)
    assert (await client.finish(result)).stdout == "ready\r\n40 120\r\n"


@pytest.mark.promise("S0.19.resize")
async def test_resize_without_a_terminal_is_refused(client: RpcClient) -> None:
    """S0.11: reason no_terminal."""
    result = await client.execute("sleep 1000")
    failure = await client.failure("resize", process_id=result["process_id"], rows=10, cols=10)
    assert failure.reason == "no_terminal"
    await client.request("control", type="CANCEL")
    await client.completed(result["process_id"])


@pytest.mark.promise("S0.3.pty", "S0.9.signal")
async def test_control_c_typed_into_a_terminal_interrupts(client: RpcClient) -> None:
    """S0.9: the terminal sends SIGINT to the foreground; minus the signal number."""
    result = await client.execute("echo ready; exec sleep 1000", pty=True)
    await client.output(result["process_id"], "ready")
    await client.request("write", data="\x03")
    assert (await client.completed(result["process_id"]))["exit_code"] == -2


@pytest.mark.promise("S0.3.pty", "S0.6")
async def test_everything_a_terminal_program_wrote_arrives(client: RpcClient) -> None:
    """S0.6: many lines through a pty, none lost at its end; colours pass as they are."""
    run = await client.run("seq 1 20000; printf '\\033[31mred\\033[0m\\n'; printf last", pty=True)
    expected = "".join(f"{number}\r\n" for number in range(1, 20_001)) + "\x1b[31mred\x1b[0m\r\nlast"
    assert run.stdout == expected


@pytest.mark.promise("S0.19.write.binary")
async def test_a_binary_write_takes_its_bytes_as_they_are(client: RpcClient) -> None:
    """Every byte, newlines included, in frames larger than one packet of the keeper; the order holds."""
    result = await client.execute("sha256sum", stdin="pipe")
    process_id = result["process_id"]
    data = bytes(range(256)) * 4096
    for number, piece in enumerate((data, b"", b"\n{}\n", data[:77]), 900):
        request = {"jsonrpc": "2.0", "id": number, "method": "write", "params": {"process_id": process_id}}
        await client.send_raw(json.dumps(request).encode() + b"\n" + piece)
        answer = await client.until(lambda message, number=number: message.get("id") == number)  # type: ignore[misc]
        assert answer["result"] == {"written": len(piece)}
    await client.request("close_stdin", process_id=process_id)
    run = await client.finish(result)
    assert run.stdout.split()[0] == hashlib.sha256(data + b"\n{}\n" + data[:77]).hexdigest()


@pytest.mark.promise("S0.19.write.binary", "S0.bad.binary")
async def test_no_other_method_takes_bytes(client: RpcClient) -> None:
    request = {"jsonrpc": "2.0", "id": 5, "method": "execute", "params": {"command": "true"}}
    await client.send_raw(json.dumps(request).encode() + b"\nx")
    answer = await client.until(lambda message: message.get("id") == 5)
    assert (answer["error"]["code"], answer["error"]["data"]["reason"]) == (-32600, "binary_frame")
    await client.barrier()


@pytest.mark.promise("S0.19.write")
async def test_closing_the_input_of_what_has_ended_is_a_success(client: RpcClient) -> None:
    result = await client.execute("true", stdin="pipe")
    await client.finish(result)
    assert await client.request("close_stdin", process_id=result["process_id"]) == {"status": "closed"}
