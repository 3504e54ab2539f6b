"""Who may be the bridge's other end, whose terminals are whose, and what may be typed into them."""

import asyncio
import json
import ssl
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.attacks.attacking import Requests, ask, create_token
from tests.attacks.certificates import Authority
from tests.extensions.bridge.extension import DocumentExtension, Message, dialling
from tests.extensions.bridge.knocking import Door
from tests.support.fixtures import ServerFactory
from tests.support.processes import poll_until
from tests.support.raw import upgrade
from tests.support.server import OutliveServer, run_outlive

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_FORWARDED = {"Via": "1.1 proxy"}  # such a caller is not trusted by its user


async def _status(url: str, **headers: str) -> int:
    """Return how an upgrade is answered."""
    try:
        async with connect(url, proxy=None, additional_headers=headers):
            return 101
    except InvalidStatus as error:
        return error.response.status_code


@pytest.mark.promise("S3.1.token", "S3.8")
async def test_a_token_travels_in_the_address_and_is_never_logged(serve: ServerFactory) -> None:
    server = serve("--log-level", "debug", "--redact", "off")
    tokens = {
        scope: await asyncio.to_thread(create_token, server, scope)
        for scope in ("bridge", "read", "run", "admin")
    }
    url = server.bridge_url
    for scope, token in tokens.items():
        assert await _status(f"{url}/?token={token}", **_FORWARDED) == 101, scope
        assert await _status(f"{url}?a=b&token={token}", **_FORWARDED) == 101, scope
        assert await _status(url, Authorization=f"Bearer {token}", **_FORWARDED) == 101, scope
    wrong = tokens["run"][:-1] + ("A" if tokens["run"][-1] != "A" else "B")
    assert await _status(f"{url}/?token={wrong}", **_FORWARDED) == 401
    assert await _status(f"{url}/?token={wrong}") == 401, "a wrong token does not fall back to the user"
    assert await _status(f"{url}/?token=", **_FORWARDED) == 401
    assert await _status(url, **_FORWARDED) == 401
    assert await _status(f"{url}/?token={tokens['run']}", Host="evil.example") == 421
    await poll_until(lambda: "an extension is gone" in server.stderr)
    everything = server.stderr + "".join(
        path.read_text(errors="replace")
        for path in server.state_dir.rglob("*")
        if path.is_file() and path.suffix != ".db"
    )
    for token in (*tokens.values(), wrong):
        assert token not in everything


@pytest.mark.promise("S3.1.token")
def test_the_address_counts_for_upgrades_at_the_bridge_alone(bridge: OutliveServer) -> None:
    port = bridge.ready["ports"]["bridge"]
    run = create_token(bridge, "run")
    of_bridge = create_token(bridge, "bridge")
    for path in ("/", "/metrics", "/v1/processes"):
        assert ask(port, "GET", f"{path}?token={run}", headers=_FORWARDED).status == 401, path
    for path in ("/ws/mcp", "/v1/processes/01k9zq3v8d4t6r2m5x7b1n0c9f/follow"):
        assert upgrade(port, path=f"{path}?token={run}", headers=_FORWARDED).status == 401, path
        assert upgrade(port, path=path, headers={"Authorization": f"Bearer {of_bridge}"}).status == 403, path
    reply = ask(port, "GET", "/", headers={"Authorization": f"Bearer {of_bridge}"})
    assert (reply.status, reply.slug) == (403, "scope_missing")
    many = "&".join(f"a{n}=b" for n in range(200))
    assert upgrade(port, path=f"/?{many}&token={run}", headers=_FORWARDED).status == 401


@pytest.mark.promise("S3.8", "A.origin")
def test_no_web_page_and_no_other_name_is_let_in(bridge: OutliveServer) -> None:
    port = bridge.ready["ports"]["bridge"]
    token = create_token(bridge, "bridge")
    for origin in ("http://evil.example", "http://localhost.evil.com", "vscode-webview://x", "null"):
        assert upgrade(port, path="/", headers={"Origin": origin}).status == 403, origin
        assert upgrade(port, path=f"/?token={token}", headers={"Origin": origin}).status == 403, origin
    own = {"Origin": f"http://localhost:{port}"}
    assert upgrade(port, path="/", headers=own).status == 401, "a page of this machine has to show a token"
    assert upgrade(port, path=f"/?token={token}", headers=own).status == 101
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.2:1", ""):
        assert upgrade(port, path="/", host=host or " ").status in {400, 421}, host
    assert upgrade(port, path="/", host="localhost").status == 101


@pytest.mark.promise("S3.8")
async def test_a_command_of_ours_is_no_extension_without_a_token(bridge: OutliveServer) -> None:
    script = (
        "import asyncio, sys\nfrom websockets.asyncio.client import connect\n"
        "async def main():\n"
        "    try:\n"
        "        async with connect(sys.argv[1], proxy=None): print('in')\n"
        "    except Exception as error: print(error.response.status_code)\n"
        "asyncio.run(main())"
    )
    mine = Requests(bridge)
    body = {"argv": [sys.executable, "-c", script, bridge.bridge_url]}
    reply = await asyncio.to_thread(mine, "POST", "/v1/processes", body=body)
    assert (await asyncio.to_thread(mine.output, reply.body["process_id"])).strip() == "401"


@pytest.mark.promise("S3.8", "A.scope")
async def test_everybody_has_his_own_terminals(bridge: OutliveServer, door: Door) -> None:
    agent = await asyncio.to_thread(create_token, bridge, "run", name="agent")
    other = Door(bridge, agent)
    async with dialling(bridge.bridge_url) as mine:
        made = await door("create")
        assert await other.vscode() == []
        for verb in ("execute", "close", "read"):
            for find in (True, False):
                refused = await other.refusal(
                    verb, terminal_id=made["terminal_id"], command="date", find=find
                )
                assert refused.code == "terminal_not_found", verb
        assert (await other.refusal("create")).code == "no_terminal_host", "this VS Code is not the agent's"
        async with dialling(f"{bridge.bridge_url}/?token={agent}") as theirs:
            two = await other("create")
            assert list(theirs.terminals) == [two["terminal_id"]]
            assert await door.vscode() == [made["terminal_id"]]
        assert [command for _, command in mine.executed] == []


@pytest.mark.promise("S3.8")
async def test_an_extension_with_a_token_of_the_scope_bridge_serves_all(
    bridge: OutliveServer, door: Door
) -> None:
    token = await asyncio.to_thread(create_token, bridge, "bridge", name="code")
    agent = Door(bridge, await asyncio.to_thread(create_token, bridge, "run", name="agent"))
    async with dialling(f"{bridge.bridge_url}/?token={token}") as extension:
        one, two = await door("create", name="one"), await agent("create", name="two")
        assert list(extension.terminals.values()) == ["one", "two"]
        assert await door.vscode() == [one["terminal_id"]]
        assert await agent.vscode() == [two["terminal_id"]]
        await asyncio.to_thread(run_outlive, "token", "revoke", "code", state_dir=bridge.state_dir)
        await extension.until(lambda: extension.socket is None)
        assert (await door.refusal("create")).code == "no_terminal_host"


@pytest.mark.promise("S3.8")
async def test_who_may_only_be_the_bridge_or_only_read_runs_nothing(bridge: OutliveServer) -> None:
    """A token of the scope bridge opens no terminal of the engine's either, whatever its extension says it
    is.
    """
    for scope in ("bridge", "read"):
        token = await asyncio.to_thread(create_token, bridge, scope)
        url = f"{bridge.bridge_url}/?token={token}"
        async with dialling(url, additional_headers={"Outlive-Extension": "1"}) as extension:
            await extension.say('{"type":"create_terminal","id":"1","data":{}}')
            await asyncio.sleep(0.2)
            assert extension.received == []


@pytest.mark.promise("S3.8")
async def test_commands_are_judged_before_they_are_sent(serve: ServerFactory) -> None:
    server = serve(ALLOWED_COMMANDS="date,echo,ls")
    door = Door(server)
    async with dialling(server.bridge_url) as extension:
        made = await door("create")
        await door("execute", terminal_id=made["terminal_id"], command="echo hello | ls && date")
        for command, code in (
            ("rm -r build", "command_not_allowed"),
            ("echo hello; rm -r build", "command_not_allowed"),
            ("echo $(rm -r build)", "command_opaque"),
            ("echo hello\nrm -r build", "command_opaque"),
            ("echo hello\x15rm -r build", "command_opaque"),
            ("echo 'hello\x03'", "command_opaque"),
            ("echo !rm", "command_opaque"),
            ("", "invalid_params"),
            ("echo \x00", "invalid_params"),
        ):
            refused = await door.refusal("execute", terminal_id=made["terminal_id"], command=command)
            assert refused.code == code, command
        assert [command for _, command in extension.executed] == ["echo hello | ls && date"]
    shown = (
        await asyncio.to_thread(run_outlive, "audit", "show", "--json", state_dir=server.state_dir)
    ).stdout
    for part in ('"open"', '"execute"', '"command_not_allowed"', "echo hello | ls"):
        assert part in shown


@pytest.mark.promise("S3.8")
async def test_rules_count_and_what_a_person_is_asked_about_is_not_typed(serve: ServerFactory) -> None:
    server = serve("--deny", "rm", "--ask", "git push *")
    door = Door(server)
    async with dialling(server.bridge_url) as extension:
        made = await door("create")
        for command in ("rm x", "git push --force", "ls; rm x"):
            refused = await door.refusal("execute", terminal_id=made["terminal_id"], command=command)
            assert refused.code == "command_denied", command
        await door("execute", terminal_id=made["terminal_id"], command="ls")
        assert [command for _, command in extension.executed] == ["ls"]


@pytest.mark.promise("S3.8")
async def test_a_profile_is_not_escaped_through_vs_code(serve: ServerFactory) -> None:
    server = serve("--profile", "guarded")
    admin = await asyncio.to_thread(create_token, server, "admin")
    async with dialling(server.bridge_url), dialling(f"{server.bridge_url}/?token={admin}"):
        assert (await Door(server).refusal("create")).code == "profile_too_weak"
        made = await Door(server, admin)("create")
        assert (await Door(server, admin)("execute", terminal_id=made["terminal_id"], command="ls"))[
            "is_complete"
        ]


_SECRET = "ghp_" + "a1B2" * 9


class _Failing(DocumentExtension):
    """An extension that closes nothing, and says a secret about it."""

    def answers(self, message: Message) -> list[str]:
        """Answer."""
        if message["type"] != "close_terminal":
            return super().answers(message)
        return [json.dumps({"type": "error", "id": message["id"], "data": {"error": f"no {_SECRET}"}})]


@pytest.mark.promise("S3.8")
async def test_secrets_in_what_the_extension_says_are_hidden(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url, _Failing()):
        made = await door("create")
        done = await door("execute", terminal_id=made["terminal_id"], command=f"echo {_SECRET}")
        assert _SECRET not in done["output"]
        assert "Command executed: echo" in done["output"]
        failed = await door.refusal("close", terminal_id=made["terminal_id"])
        assert "it says: no ghp_*" in failed.message


@pytest.mark.promise("S3.8")
async def test_one_principal_has_only_so_many_terminals(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url) as extension:
        for _ in range(10):
            await asyncio.gather(*(door("create") for _ in range(10)))
        assert (await door.refusal("create")).code == "terminal_limit"
        assert len(extension.terminals) == 100


@pytest.mark.promise("S3.8", "A.tls")
async def test_over_tls_it_is_wss(serve: ServerFactory, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "localhost", "127.0.0.1")
    server = serve("--tls-cert", str(certificate), "--tls-key", str(key))
    context = ssl.create_default_context(cafile=str(authority.path))
    token = await asyncio.to_thread(create_token, server, "bridge")
    url = server.bridge_url.replace("ws://127.0.0.1", "wss://localhost")
    async with dialling(f"{url}/?token={token}", ssl=context) as extension:
        assert extension.connections == 1
