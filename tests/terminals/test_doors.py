"""The seven calls from every door of a real server, and what every door refuses."""

import os
from pathlib import Path

import anyio
import pytest

from tests.rest.rest_caller import RestCaller
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer
from tests.terminals.doors import DOORS, Refused, caller_of

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_TOKEN = "ghp_" + "a1B2" * 9
_MEMBERS = {
    "create": {"terminal_id", "terminal_name", "target", "state", "process_id", "cwd"},
    "execute": {"terminal_id", "output", "exit_code", "cursor", "is_complete", "waiting", "is_closed"},
    "read": {
        "terminal_id",
        "text",
        "form",
        "cursor",
        "state",
        "waiting",
        "exit_code",
        "has_more",
        "has_gap",
    },
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> object:
    home = tmp_path_factory.mktemp("home")
    folder = tmp_path_factory.mktemp("td") / "state"
    with OutliveServer(folder, env={"HOME": str(home), "SHELL": "/bin/bash"}) as server:
        yield server


@pytest.mark.promise("S3.6", "S3.7")
@pytest.mark.parametrize("door", DOORS)
async def test_the_seven_calls_work_from_every_door(door: str, shared: OutliveServer, tmp_path: Path) -> None:
    caller = caller_of(door, shared)
    before = (await caller.call("list"))["terminals"]
    made = await caller.call("create", cwd=str(tmp_path))
    assert set(made) == _MEMBERS["create"]
    assert made["terminal_name"].startswith("MCP Terminal ")
    assert (made["target"], made["state"], made["cwd"]) == ("engine", "ready", str(tmp_path))
    terminal = made["terminal_id"]
    assert [one["terminal_id"] for one in (await caller.call("list"))["terminals"]] == [
        *(one["terminal_id"] for one in before),
        terminal,
    ]
    gave = await caller.run(terminal, "echo one\n(exit 7)")
    assert set(gave) == _MEMBERS["execute"]
    assert (gave["output"], gave["exit_code"], gave["is_complete"]) == ("one\n", 7, True)
    asks = await caller.run(terminal, "read -s -p 'Word: ' W; echo; echo \"<$W>\"", wait_s=20)
    assert (asks["is_complete"], asks["waiting"], asks["exit_code"]) == (False, "password", None)
    with pytest.raises(Refused, match="busy"):
        await caller.run(terminal, "echo no")
    wrote = await caller.call("write", terminal_id=terminal, text="hidden", keys=["enter"])
    assert wrote == {"terminal_id": terminal, "written": 7}
    text = await caller.ready(terminal, cursor=asks["cursor"])
    assert set(text) == _MEMBERS["read"]
    assert "<hidden>" in text["text"]
    sized = await caller.call("resize", terminal_id=terminal, rows=40, cols=120)
    assert sized == {"terminal_id": terminal, "rows": 40, "cols": 120}
    assert (await caller.run(terminal, "stty size"))["output"] == "40 120\n"
    screen = await caller.call("read", terminal_id=terminal, form="screen", budget=4000)
    assert "stty size\n40 120" in screen["text"]
    assert await caller.call("close", terminal_id=terminal) == {"terminal_id": terminal, "closed": True}
    assert (await caller.call("list"))["terminals"] == before
    closed = await caller.call("read", terminal_id=terminal)
    assert closed["state"] == "closed"


@pytest.mark.promise("C.umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, "644"), (0o027, "640")])
async def test_a_terminals_shell_has_the_umask_that_its_server_was_started_with(
    tmp_path: Path, umask: int, mode: str
) -> None:
    """Not the keeper's 077, at any door: `terminal_create` takes none, and 022 means 022."""
    env = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    with OutliveServer(tmp_path / "state", env=env, umask=umask) as server:
        for door in DOORS:
            caller = caller_of(door, server)
            terminal = await caller.create(cwd=str(tmp_path))
            gave = await caller.run(terminal, f"umask; touch {door}; stat -c %a {door}")
            assert gave["output"] == f"{umask:04o}\n{mode}\n"
            await caller.call("close", terminal_id=terminal)


@pytest.mark.promise("S3.6")
@pytest.mark.parametrize("door", DOORS)
async def test_one_doors_terminal_is_every_doors(door: str, shared: OutliveServer) -> None:
    terminal = await caller_of(door, shared).create(terminal_name=f"made by {door}")
    for other in DOORS:
        caller = caller_of(other, shared)
        assert (await caller.run(terminal, f"echo {other}"))["output"] == f"{other}\n"
        named = await caller.run(
            f"made by {door}".replace(" ", "%20") if other == "rest" else f"made by {door}", "true"
        )
        assert named["terminal_id"] == terminal
    await caller_of(door, shared).call("close", terminal_id=terminal)


@pytest.mark.promise("S3.7.missing")
@pytest.mark.parametrize("door", DOORS)
async def test_a_terminal_of_vs_code_without_one_is_refused_with_what_to_do(
    door: str, shared: OutliveServer
) -> None:
    with pytest.raises(Refused) as refused:
        await caller_of(door, shared).call("create", target="vscode")
    assert "vscode" in refused.value.text
    assert "connect it to this server" in refused.value.text


@pytest.mark.parametrize("door", DOORS)
async def test_bad_requests_are_refused_at_every_door(door: str, shared: OutliveServer) -> None:
    caller = caller_of(door, shared)
    terminal = await caller.create()
    for name, arguments, said in (
        ("create", {"terminal_name": ""}, "terminal_name"),
        ("create", {"terminal_name": "a\nb"}, "terminal_name"),
        ("create", {"target": "moon"}, "target"),
        ("create", {"rows": 0}, "rows"),
        ("create", {"cwd": "/no/such/folder"}, "does not exist"),
        ("create", {"shell": "no_such_shell"}, "no_such_shell"),
        ("execute", {"command": "echo x\x03"}, "control characters"),
        ("execute", {"command": 'echo "abc'}, "not complete"),
        ("execute", {"command": "true", "wait_s": -1}, "wait_s"),
        ("execute", {}, "command"),
        ("read", {"form": "painted"}, "form"),
        ("read", {"budget": 1}, "budget"),
        ("read", {"cursor": "x"}, "cursor"),
        ("write", {}, "text or keys"),
        ("write", {"keys": ["f99"]}, "f99"),
        ("resize", {"rows": 1}, "cols"),
        ("resize", {"rows": 1, "cols": 70_000}, "cols"),
    ):
        with pytest.raises(Refused) as refused:
            await caller.call(name, **({} if name == "create" else {"terminal_id": terminal}), **arguments)
        assert said in refused.value.text, (name, arguments)
    for name, arguments in (
        ("execute", {"command": "true"}),
        ("read", {}),
        ("write", {"text": "x"}),
        ("resize", {"rows": 1, "cols": 1}),
        ("close", {}),
    ):
        with pytest.raises(Refused, match="There is no terminal"):
            await caller.call(name, terminal_id="nobody", **arguments)
    assert (await caller.run(terminal, "echo fine"))["output"] == "fine\n"
    await caller.call("close", terminal_id=terminal)


async def test_rest_says_where_a_terminal_is(shared: OutliveServer) -> None:
    caller = RestCaller(shared.rest_url)

    def look() -> None:
        made = caller.call("POST", "/v1/terminals", {"terminal_name": "here"}, expect=201)
        assert made.headers["location"] == f"/v1/terminals/{made.json['terminal_id']}"
        assert caller.call("GET", made.headers["location"]).json == made.json
        caller.call("DELETE", made.headers["location"])
        assert caller.call("GET", made.headers["location"]).json["state"] == "closed"

    await anyio.to_thread.run_sync(look)


@pytest.mark.promise("S3.8")
@pytest.mark.parametrize("door", DOORS)
async def test_lists_hold_for_what_is_typed_too(door: str, serve: ServerFactory) -> None:
    server = await anyio.to_thread.run_sync(lambda: serve("--deny", "rm **,curl", "--ask", "git push **"))
    caller = caller_of(door, server)
    terminal = await caller.create()
    for command in ("rm -rf x", "echo a; /bin/rm x", "echo a\nrm x", "sudo rm x", "bash -c 'rm x'"):
        with pytest.raises(Refused) as refused:
            await caller.run(terminal, command)
        assert any(
            word in refused.value.text for word in ("denied", "denies", "not certain", "Sudo commands")
        ), command
    with pytest.raises(Refused, match="cannot wait"):
        await caller.run(terminal, "git push origin")
    assert (await caller.run(terminal, "echo fine"))["output"] == "fine\n"


@pytest.mark.promise("S3.8")
@pytest.mark.parametrize("door", DOORS)
async def test_a_shell_off_the_allow_list_is_no_terminal(door: str, serve: ServerFactory) -> None:
    server = await anyio.to_thread.run_sync(lambda: serve(ALLOWED_COMMANDS="ls,echo"))
    with pytest.raises(Refused, match=r"not on the list"):
        await caller_of(door, server).create()


@pytest.mark.promise("S3.8")
async def test_with_an_allow_list_of_shells_commands_are_judged_and_no_file_of_the_users_is_read(
    serve: ServerFactory, tmp_path: Path
) -> None:
    (tmp_path / ".bashrc").write_text("echo() { command touch escaped; }\n")
    server = await anyio.to_thread.run_sync(
        lambda: serve(ALLOWED_COMMANDS="bash,echo,pwd", HOME=tmp_path, SHELL="/bin/bash")
    )
    caller = caller_of("jsonrpc", server)
    terminal = await caller.create(cwd=str(tmp_path))
    assert (await caller.run(terminal, "echo hi && pwd"))["output"] == f"hi\n{tmp_path}\n"
    assert (await caller.run(terminal, "echo $((1+2))"))["output"] == "3\n"
    for command in ("touch x", "alias echo=touch"):
        with pytest.raises(Refused):
            await caller.run(terminal, command)
    assert {"x", "escaped"}.isdisjoint(await anyio.to_thread.run_sync(os.listdir, tmp_path))


@pytest.mark.promise("S3.8")
async def test_a_profile_bounds_the_terminal(shared: OutliveServer, tmp_path: Path) -> None:
    caller = caller_of("rest", shared)
    for profile in ("guarded", "workspace", "offline", "sealed"):
        try:
            terminal = await caller.create(profile=profile, cwd=str(tmp_path))
        except Refused as refused:
            if "sandbox_unavailable" not in refused.text:
                raise
            continue
        gave = await caller.run(
            terminal, "grep NoNewPrivs /proc/self/status; touch inside; touch /etc/outside-$$"
        )
        assert "NoNewPrivs:\t1" in gave["output"]
        if profile != "guarded":
            assert "outside" in gave["output"]
            assert gave["exit_code"] == 1
        await caller.call("close", terminal_id=terminal)


@pytest.mark.promise("S3.8")
async def test_what_is_done_in_terminals_is_in_the_audit_log(serve: ServerFactory, tmp_path: Path) -> None:
    server = await anyio.to_thread.run_sync(lambda: serve("--deny", "rm **"))
    caller = caller_of("rest", server)
    terminal = await caller.create()
    await caller.run(terminal, f"echo seen; export X={_TOKEN}")
    with pytest.raises(Refused):
        await caller.run(terminal, "rm x")
    await caller.call("write", terminal_id=terminal, text="never told\x15")
    await caller.call("close", terminal_id=terminal)
    await anyio.to_thread.run_sync(server.stop)
    log = "".join(file.read_text() for file in sorted((server.state_dir / "audit").glob("*.jsonl")) or [])
    log = log or "".join(
        file.read_text(errors="replace") for file in (server.state_dir / "audit").iterdir() if file.is_file()
    )
    assert '"what":"execute"' in log
    assert "echo seen" in log
    assert _TOKEN not in log
    assert '"decision":"denied"' in log
    assert '"what":"write"' in log
    assert "never told" not in log
    await anyio.to_thread.run_sync(server.start)
