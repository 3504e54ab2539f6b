"""ALLOWED_COMMANDS: the first word of every simple command counts, what is not understood is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import to_thread

from tests.support.fixtures import ServerFactory
from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server that allows echo and cat."""
    state_dir = tmp_path_factory.mktemp("strict") / "state"
    with OutliveServer(state_dir, env={"ALLOWED_COMMANDS": "echo, cat"}) as server:
        yield server


@pytest.mark.promise("S0.12")
@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("echo hi", "hi\n"),
        ("echo 'ls; rm' \"&& x\"", "ls; rm && x\n"),
        ("echo a && echo b", "a\nb\n"),
        ("echo a | cat", "a\n"),
        ("echo a; echo b", "a\nb\n"),
        ("cat /no/such/file || echo b", "b\n"),
    ],
)
async def test_a_line_of_allowed_commands_runs(strict: OutliveServer, command: str, stdout: str) -> None:
    """S0.12: words, quotes, &&, ||, ; and | are understood."""
    async with connect(strict.url) as client:
        assert (await client.run(command)).stdout == stdout


@pytest.mark.promise("S0.12", "S0.11", "S0.11.hint")
@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "echo a; ls",
        "echo a && ls",
        "cat /no || ls",
        "echo a | ls",
        "echo a\nls",
        "bash -c 'echo a'",
        "'l's",
        "ec\\ho; l\\s",
    ],
)
async def test_a_command_off_the_list_is_refused_wherever_it_stands(
    strict: OutliveServer, command: str
) -> None:
    """S0.12: the first word of every simple command must be on the list: -32002."""
    async with connect(strict.url) as client:
        failure = await client.failure("execute", command=command)
        assert failure.code == -32002
        assert failure.reason in ("command_not_allowed", "command_opaque")
        assert failure.hint
        await client.barrier()
        assert [message["method"] for message in client.messages if "method" in message] == ["connected"]


@pytest.mark.promise("S0.12.opaque")
@pytest.mark.parametrize(
    "line",
    [
        "echo $(touch {proof})",
        "echo `touch {proof}`",
        "echo x > {proof}",
        "cat <(touch {proof})",
        "cat << E\n$(touch {proof})\nE",
        "echo ${{x:-$(touch {proof})}}",
        "echo x & touch {proof}",
        "(touch {proof})",
        "{{ touch {proof}; }}",
        "if touch {proof}; then echo x; fi",
        "echo() {{ touch {proof}; }}; echo",
        "echo x\\\n; touch {proof}",
        "! touch {proof}",
        "X=1 touch {proof}",
    ],
)
async def test_what_the_grammar_does_not_understand_never_runs(
    strict: OutliveServer, tmp_path: Path, line: str
) -> None:
    """S0.12: substitutions, redirections, heredocs and compound commands are refused with -32002."""
    proof = tmp_path / "proof"
    async with connect(strict.url) as client:
        failure = await client.failure("execute", command=line.format(proof=proof))
    assert failure.code == -32002
    assert not proof.exists()


@pytest.mark.promise("S0.12")
async def test_argv_is_held_to_the_list_too(strict: OutliveServer) -> None:
    """S0.12: the program of argv is its first word."""
    async with connect(strict.url) as client:
        assert (await client.run(argv=["echo", "a;", "ls"])).stdout == "a; ls\n"
        assert (await client.failure("execute", argv=["ls"])).code == -32002


@pytest.mark.promise("S0.12.shells", "S0.12", "S0.11")
async def test_the_documents_own_list_runs_what_its_shell_runs(serve: ServerFactory) -> None:
    """The start says that it allows everything; a first word off the list is -32002."""
    server = await to_thread.run_sync(
        lambda: serve(ALLOWED_COMMANDS="bash,claude,python,node,npm,git,ls,cat,echo,pwd")
    )
    assert "ALLOWED_COMMANDS holds a shell and so allows everything" in server.stderr
    async with connect(server.url) as client:
        assert (await client.run("echo $((1+2))")).stdout == "3\n"
        assert (await client.run("for x in 1 2; do echo $x; done; (pwd >/dev/null)")).stdout == "1\n2\n"
        assert (await client.failure("execute", command="rm -rf x")).code == -32002


@pytest.mark.promise("S0.12.empty")
async def test_an_empty_list_allows_everything(client: RpcClient) -> None:
    """S0.12: no list, no restriction; substitutions and redirections work."""
    run = await client.run("for x in $(seq 1 2); do echo $x > /dev/null; echo $x; done")
    assert run.stdout == "1\n2\n"
