"""The operator's program: what it gets, when its work counts as done, and what is left of it."""

import asyncio
import html
import json
import os
import shlex
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from outlive.client import AsyncClient, InvalidRequest
from outlive.config import resolve
from outlive.config.resolution import ConfigFile
from outlive.core.errors import ConfigInvalid
from outlive.extensions.observe.notices import channels as command_module
from outlive.extensions.observe.notices.channels import NotifyCommand
from outlive.extensions.observe.notices.notice import Attempt
from outlive.extensions.observe.options import ObserveOptions
from tests.docs.pages import blocks, page
from tests.extensions.observe.notices.endpoints import PATIENCE_S, Endpoint
from tests.extensions.observe.notices.test_notice import a_notice
from tests.support.fixtures import ServerFactory
from tests.support.processes import Marker, is_alive, poll_until, wait_dead, wait_for
from tests.support.server import OutliveServer

needs_jq = pytest.mark.skipif(
    not (shutil.which("jq") and shutil.which("curl")), reason="no jq and curl on this machine"
)
_HERE = {"PATH": os.environ["PATH"]}
_KEEPS = 'cat >"$0.new"; printf "%s\\n" "$@" >"$0.words"; mv "$0.new" "$0"'


def _shell(line: str, *words: str) -> NotifyCommand:
    return NotifyCommand(("sh", "-c", line, *words), _HERE)


@pytest.mark.promise("N.command")
async def test_the_program_gets_the_notice_on_its_input_and_the_title_as_its_last_word(
    tmp_path: Path,
) -> None:
    notice = a_notice("failure", exit_code=3, command="make 'ä'", tags={"job": "x"}, name="web")
    assert await _shell(_KEEPS, f"{tmp_path}/got", "one word", "-x").deliver(notice) == Attempt("sent")
    assert json.loads((tmp_path / "got").read_text()) == notice.payload()
    assert (tmp_path / "got.words").read_text().splitlines() == ["one word", "-x", notice.title]


@pytest.mark.promise("N.command")
async def test_the_program_gets_nothing_of_the_environment_but_its_users_files_and_the_desktop(
    tmp_path: Path,
) -> None:
    """The server's own has keys and tokens in it."""
    passed = {"DISPLAY": ":0", "XDG_RUNTIME_DIR": "/r", "HOME": "/h", "LANG": "C", "USER": "ann", **_HERE}
    secrets = {"MCP_API_KEY": "k", "OUTLIVE_NOTIFY_WEBHOOK": "https://t", "AWS_SECRET": "s", "LD_PRELOAD": ""}
    program = NotifyCommand(("sh", "-c", f"env >{tmp_path}/env"), {**passed, **secrets})
    assert await program.deliver(a_notice()) == Attempt("sent")
    own = {
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
        "LC_CTYPE",
    }  # the shell's, and Python's where the locale is C (PEP 538)
    got = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert {name: value for name, value in got.items() if name not in own} == passed


@pytest.mark.promise("N.command")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("exit 7", "exit code 7"),
        ("echo first >&2; printf '\\033[31mno daemon\\033[0m\\n\\n' >&2; exit 1", "exit code 1: no daemon"),
        ("yes | head -c 10000000 >&2; echo last >&2; exit 2", "exit code 2: last"),
        ("kill -9 $$", "it was ended by signal 9"),
        ("sleep 1000 2>&1 & exit 3", "exit code 3"),  # it holds stderr open
        ("printf '\\377\\n' >&2; exit 1", "exit code 1: \ufffd"),
    ],
)
async def test_a_program_that_fails_is_tried_again_and_its_last_line_says_why(line: str, reason: str) -> None:
    assert await _shell(line).deliver(a_notice()) == Attempt("again", reason)


@pytest.mark.promise("N.command")
async def test_a_program_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    missing = NotifyCommand((f"{tmp_path}/none",), _HERE)
    assert await missing.deliver(a_notice()) == Attempt(
        "again", "it cannot be started: No such file or directory"
    )
    (tmp_path / "none").write_text("#!/bin/sh\n")
    denied = await missing.deliver(a_notice())
    assert denied == Attempt("again", "it cannot be started: Permission denied")
    (tmp_path / "none").chmod(0o755)
    assert await missing.deliver(a_notice()) == Attempt("sent")


@pytest.mark.promise("N.command")
async def test_a_program_that_reads_nothing_of_its_input_has_done_its_work() -> None:
    notice = a_notice(tags={str(number): "x" * 200 for number in range(1000)})
    assert await NotifyCommand(("true",), _HERE).deliver(notice) == Attempt("sent")


@pytest.mark.promise("N.command")
@pytest.mark.parametrize("ending", ["deadline", "end", "cancel"])
async def test_nothing_of_a_programs_tree_outlives_it_its_deadline_or_its_server(
    monkeypatch: pytest.MonkeyPatch, marker: Marker, ending: str, tmp_path: Path
) -> None:
    """One in the background, and one that has left for a session of its own."""
    own = marker.sleep
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    line = f"{own} & setsid {own} & {f'read go <{gate}; exit 0' if ending == 'end' else own}"
    # Whatever is judged by the deadline has begun before it, however slow this machine is.
    monkeypatch.setattr(command_module, "DEADLINE_S", 5.0 if ending == "deadline" else 60.0)
    running = asyncio.create_task(_shell(line).deliver(a_notice()))
    pids = await wait_for(marker, 2 if ending == "end" else 3)
    if ending == "cancel":
        running.cancel()
    if ending == "end":
        await asyncio.to_thread(gate.write_text, "go\n")
    (done,) = await asyncio.gather(running, return_exceptions=True)
    assert not any(map(is_alive, pids))
    if ending == "cancel":
        assert isinstance(done, asyncio.CancelledError)
    else:
        assert done == (Attempt("sent") if ending == "end" else Attempt("again", "no end within 5 s"))


async def _served(serve: ServerFactory, command: str, *args: str, **env: str) -> OutliveServer:
    return await asyncio.to_thread(lambda: serve("--notify-command", command, *args, **env))


def _client(server: OutliveServer) -> AsyncClient:
    return AsyncClient(server.state_dir, start_server=False)


@pytest.mark.promise("N.command")
@pytest.mark.parametrize("ending", ["kill", "stop"])
async def test_a_program_ends_with_its_server(serve: ServerFactory, marker: Marker, ending: str) -> None:
    line = f"setsid {marker.sleep} & {marker.sleep}"
    server = await _served(serve, shlex.join(["sh", "-c", line]))
    async with _client(server) as client:
        await client.start("true", notify=True)
        pids = await wait_for(marker, 2)
    await asyncio.to_thread(server.kill if ending == "kill" else server.stop)
    await wait_dead(*pids)


@pytest.mark.promise("N.command")
@pytest.mark.promise("N.hostile")
@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        ("echo why >&2; exit 1", "exit code 1: why"),
        pytest.param("yes >&2", "no end within 10 s", marks=pytest.mark.thorough),
        pytest.param("kill -STOP $$", "no end within 10 s", marks=pytest.mark.thorough),
    ],
)
async def test_a_program_that_fails_slows_no_process_and_is_tried_again(
    serve: ServerFactory, tmp_path: Path, fails: str, reason: str
) -> None:
    """Its first run only; the deadline of the others is the same."""
    line = f"mkdir {tmp_path}/first 2>/dev/null && {{ {fails}; }}; cat >>{tmp_path}/got"
    if fails == "exit 1":
        line = f"mkdir {tmp_path}/first 2>/dev/null && {{ echo why >&2; exit 1; }}; cat >>{tmp_path}/got"
    server = await _served(serve, shlex.join(["sh", "-c", line]), OUTLIVE_LOG_LEVEL="debug")
    async with _client(server) as client:
        began = asyncio.get_running_loop().time()
        first = await client.start("true", notify=True)
        await first.wait(PATIENCE_S)
        for _ in range(10):
            await (await client.start("true", notify=["end"])).wait(PATIENCE_S)
        assert asyncio.get_running_loop().time() - began < 8  # less than the deadline of one run
        got = tmp_path / "got"
        await poll_until(lambda: got.exists() and got.read_text().count("\n") == 11, patience_s=40)
    ids = [json.loads(line)["id"] for line in got.read_text().splitlines()]
    assert ids[0] == f"{first.process_id}.end"
    assert len(set(ids)) == 11
    assert reason in server.stderr


def _recipe(tmp_path: Path, number: int, **changes: str) -> str:
    text = blocks(page("docs/notify.md"), "sh")[number]
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "on-notice"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@needs_jq
@pytest.mark.promise("N.command")
async def test_the_recipe_of_ntfy_publishes_title_priority_and_tag_and_no_command(
    serve: ServerFactory, endpoint: Endpoint, tmp_path: Path
) -> None:
    recipe = _recipe(tmp_path, 0, **{"https://ntfy.example.org/": endpoint.url})
    endpoint.answers.append(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    server = await _served(serve, recipe, "--notify-silence", "1s")
    async with _client(server) as client:
        failed = await client.start("echo a-word-of-the-command >&2; exit 3", notify=True, name="web")
        refused, got = await endpoint.came(2)
        await client.start("sleep 1000", notify=["silence"], name="quiet")
        silent = (await endpoint.came(3))[2]
    assert got == refused == {
        "topic": "outlive",
        "title": "Failed after 0 s: web",
        "message": f"Exit code 3. outlive logs {failed.process_id}",
        "priority": 4,
        "tags": ["x"],
    }  # fmt: skip
    assert (silent["title"], silent["tags"]) == ("Silent: quiet", ["zzz"])
    assert "exit code 22: curl: (22)" in server.stderr


@needs_jq
@pytest.mark.promise("N.command")
async def test_the_recipe_of_the_desktop_shows_title_command_and_text_as_words_and_not_as_flags_or_markup(
    serve: ServerFactory, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    stand_in = tmp_path / "notify-send"
    stand_in.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" "$DBUS_SESSION_BUS_ADDRESS" >{said}.new; mv {said}.new {said}\n'
    )
    stand_in.chmod(0o755)
    recipe = _recipe(tmp_path, 1)
    server = await _served(serve, recipe, PATH=f"{tmp_path}:{os.environ['PATH']}")
    async with _client(server) as client:
        process = await client.start("read -p '<b>Name?' name", pty=True, notify=["question"])
        await poll_until(said.exists)
        await process.cancel(0.5)
    *words, bus = said.read_text().splitlines()
    assert words[:4] == [
        "--app-name=outlive",
        "--urgency=critical",
        "--",
        f"Waits for input: {process.process_id[-6:]}",
    ]
    assert [html.unescape(line) for line in words[4:]] == [
        "read -p '<b>Name?' name",
        f"outlive answer {process.process_id}",
    ]
    assert "&lt;b&gt;" in words[4]
    assert bus == os.environ.get("DBUS_SESSION_BUS_ADDRESS", f"unix:path=/run/user/{os.getuid()}/bus")


@pytest.mark.promise("N.operator")
async def test_a_caller_that_names_a_program_is_refused(serve: ServerFactory, tmp_path: Path) -> None:
    server = await _served(serve, f"touch {tmp_path}/ran")
    async with _client(server) as client:
        with pytest.raises(InvalidRequest, match="notify"):
            await client.start("true", notify=["touch /tmp/x"])  # type: ignore[list-item] # on purpose


def _settings(text: str) -> tuple[str, ...]:
    found = resolve({"notify_command": text}, {"HOME": "/ann"}, working_folder="/")
    return found.settings.of(ObserveOptions).notify_command


async def test_a_cancel_is_not_lost_when_the_helper_ends_at_that_instant() -> None:
    """A server that stops waits for the task; `asyncio.wait_for` of Python 3.11 would have it go on."""
    for turns in range(8):  # of the event loop, between which everything that ends the wait happens
        runner = await asyncio.create_subprocess_exec("true", stdin=PIPE)
        await runner.wait()
        letting_go = asyncio.create_task(command_module._let_go(runner))
        for _ in range(turns):
            await asyncio.sleep(0)
        if letting_go.cancel():
            await asyncio.wait({letting_go})
            assert letting_go.cancelled(), turns


def test_words_are_split_as_a_shell_splits_them_and_a_list_of_a_file_is_taken_as_it_is() -> None:
    assert _settings("") == ()
    assert _settings("notify 'two words' \"$HOME\"") == ("notify", "two words", "$HOME")
    file = ConfigFile("user", "/f", 'notify_command = ["/opt/a b", "x, y", "--"]')
    found = resolve({}, {"HOME": "/ann"}, working_folder="/", files=[file])
    assert found.settings.of(ObserveOptions).notify_command == ("/opt/a b", "x, y", "--")


@pytest.mark.parametrize("text", ["./mine", "~/bin/mine", "bin/mine", "''", "'open", "a\0b"])
def test_a_program_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="--notify-command"):
        _settings(text)


@pytest.mark.promise("N.operator")
def test_a_project_names_no_program() -> None:
    file = ConfigFile("project", "/p/.outlive.toml", 'notify_command = "touch x"')
    with pytest.raises(ConfigInvalid, match="a project may not decide"):
        resolve({}, {"HOME": "/ann"}, working_folder="/", files=[file])


def test_an_error_of_a_webhook_does_not_repeat_it() -> None:
    """Its path or query may hold a token."""
    url = "gopher://user:the-token@nowhere"
    with pytest.raises(ConfigInvalid) as caught:
        resolve({"notify_webhook": url}, {"HOME": "/ann"}, working_folder="/", files=[])
    assert "the-token" not in f"{caught.value} {caught.value.hint} {caught.value.details}"
