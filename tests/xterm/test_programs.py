"""vim, less, top and a shell in xterm.js: the same picture after a reconnect by cursor, for a late viewer,
and in tmux.
"""

import http.client
import re
import time
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.cli.screens import Screen, needs, screen
from tests.docs.pages import page
from tests.support.server import OutliveServer
from tests.terminal_socket.viewing import start, written
from tests.xterm.emulating import Emulator, OpenEmulator

pytestmark = pytest.mark.slow

_ENV = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
_ESC = "\x1b"


def _start(server: OutliveServer, command: str, folder: Path) -> str:
    return start(server, command, env={**_ENV, "HOME": str(folder)}, cwd=str(folder), rows=24, cols=80)


def _hold(server: OutliveServer, process_id: str, verb: str) -> None:
    reply = Requests(server)("POST", f"/v1/processes/{process_id}/control", body={"action": verb})
    assert reply.status == 200, reply


def _type_elsewhere(server: OutliveServer, process_id: str, text: str) -> None:
    """Type through another door."""
    connection = http.client.HTTPConnection("127.0.0.1", server.ready["ports"]["rest"], timeout=20)
    try:
        connection.request(
            "POST",
            f"/v1/processes/{process_id}/stdin",
            body=text.encode(),
            headers={"Content-Type": "application/octet-stream"},
        )
        assert connection.getresponse().status < 300
    finally:
        connection.close()


def _same_everywhere(server: OutliveServer, process_id: str, shown: Emulator, opened: OpenEmulator) -> str:
    """Hold that a reconnected terminal shows what one shows that reads everything from the beginning.

    Return the text.
    """
    size = len(written(server, process_id))
    fresh = opened(server, process_id, answers=False)
    assert shown.wait_bytes(size) == fresh.wait_bytes(size)
    return shown.look().text


def _in_tmux(folder: Path, command: str, *steps: tuple[str, str]) -> str:
    """Return what tmux shows of a command after typing; each step waits for a text first."""
    with screen(folder) as shown:
        shown.say(f"clear; exec {command}")
        for text, keys in steps:
            shown.wait_text(text)
            _type(shown, keys)
        return shown.text()


def _type(shown: Screen, keys: str) -> None:
    if keys:
        shown._tmux("send-keys", "-l", keys)


@pytest.mark.promise("T.screen", "T.resume", "T.bytes")
@needs("vim", "tmux")
def test_vim_draws_the_same_after_a_reconnect_and_as_in_tmux(
    server: OutliveServer, emulator: OpenEmulator, tmp_path: Path
) -> None:
    (tmp_path / "numbers.py").write_text(
        "".join(f"value_{n} = {n}  # grün 日本 {n}\n" for n in range(1, 301))
    )
    command = "vim -n -u NONE -i NONE -N --cmd 'set nomore encoding=utf-8' numbers.py"
    process_id = _start(server, command, tmp_path)
    shown = emulator(server, process_id)
    shown.wait_text("value_1 =")
    shown.type(":set number\r")
    shown.wait_text("  1 value_1")
    shown.type(":syntax on\r:200\r")
    shown.wait_text("200 value_200")
    shown.cut()
    other = emulator(server, process_id, answers=False)
    _type_elsewhere(server, process_id, f"oanother line{_ESC}:10,20d\r")
    other.wait_text("11 fewer lines")
    shown.again()
    shown.wait_text("11 fewer lines")
    shown.type("Gkkzt")
    shown.wait_text("value_300")
    shown.type(":set nonumber\r:7\r")
    shown.wait_text("\nvalue_7 =")
    text = _same_everywhere(server, process_id, shown, emulator)
    expected = _in_tmux(
        tmp_path,
        command,
        ("value_1 =", ":set number\r"),
        ("  1 value_1", ":syntax on\r:200\r"),
        ("200 value_200", f"oanother line{_ESC}:10,20d\r"),
        ("11 fewer lines", "Gkkzt"),
        ("value_300", ":set nonumber\r:7\r"),
        ("\nvalue_7 =", ""),
    )
    assert text == expected
    shown.type(":q!\r")
    shown.wait(lambda look: look.buffer == "normal")
    assert _closed(shown) == {"code": 1000, "reason": "exited with 0"}


@pytest.mark.promise("T.screen", "T.resume")
@needs("less", "tmux")
def test_less_pages_the_same_after_a_reconnect_and_as_in_tmux(
    server: OutliveServer, emulator: OpenEmulator, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text(
        "".join(f"line {n} \033[3{n % 8}mcoloured\033[0m\n" for n in range(1, 2001))
    )
    process_id = _start(server, "less -R text", tmp_path)
    shown = emulator(server, process_id)
    shown.wait_text("line 23 ")
    shown.type("  ")
    shown.wait_text("line 60 ")
    shown.cut()
    _type_elsewhere(server, process_id, "/line 1500\r")
    shown.again()
    shown.wait_text("line 1510 ")
    shown.type("b")
    shown.wait_text("line 1480 ")
    text = _same_everywhere(server, process_id, shown, emulator)
    assert text == _in_tmux(
        tmp_path,
        "less -R text",
        ("line 23 ", "  "),
        ("line 60 ", "/line 1500\r"),
        ("line 1510 ", "b"),
        ("line 1480 ", ""),
    )
    shown.type("q")
    assert _closed(shown) == {"code": 1000, "reason": "exited with 0"}


@pytest.mark.promise("T.screen", "T.resume")
@needs("top")
def test_top_goes_on_drawing_over_a_reconnect(
    server: OutliveServer, emulator: OpenEmulator, tmp_path: Path
) -> None:
    process_id = _start(server, "top -d 0.2", tmp_path)
    shown = emulator(server, process_id)
    shown.wait_text("PID USER")
    cut_at = shown.cut()
    while len(written(server, process_id)) < cut_at + 5000:
        time.sleep(0.02)  # top goes on drawing
    shown.again()
    shown.type("1z")
    while shown.bytes < cut_at + 10_000:
        shown.wait_text("PID USER")
    _hold(server, process_id, "pause")
    assert "PID USER" in _same_everywhere(server, process_id, shown, emulator)
    _hold(server, process_id, "resume")
    shown.type("q")
    assert _closed(shown) == {"code": 1000, "reason": "exited with 0"}


@pytest.mark.promise("T.screen", "T.resume")
@needs("vim")
def test_a_killed_server_is_one_more_reconnect(
    own_server: OutliveServer, emulator: OpenEmulator, tmp_path: Path
) -> None:
    process_id = _start(own_server, "bash --norc --noprofile -i", tmp_path)
    shown = emulator(own_server, process_id)
    shown.type("seq 1 200 > numbers; vim -u NONE -i NONE -N numbers\r")
    shown.wait_text("\n23\n")
    own_server.kill()
    _closed(shown)
    own_server.start()
    shown.again()
    shown.type(f"G{_ESC}:set number\r")
    shown.wait_text("200 200")
    _same_everywhere(own_server, process_id, shown, emulator)
    shown.type(":q!\r")
    shown.wait(lambda look: look.buffer == "normal")
    shown.type("exit 6\r")
    assert _closed(shown) == {"code": 1000, "reason": "exited with 6"}


@pytest.mark.promise("T.screen", "T.token", "T.control")
@needs("vim")
def test_the_documented_script_goes_on_and_answers_nothing_old(
    own_server: OutliveServer, emulator: OpenEmulator, tmp_path: Path
) -> None:
    token = create_token(own_server)
    (tmp_path / "numbers").write_text("".join(f"number {n}\n" for n in range(1, 201)))
    # It asks where the cursor is: once before anybody looks, once of who is there.
    command = (
        "stty raw -echo; printf 'asked\\033[6n'; until [ -e go ]; do sleep 0.05; done; "
        "read -t 1 -d R old; printf '\\r\\n\\033[6n'; read -t 20 -d R new; stty sane; "
        'printf "old [%q] new [%q]\\n" "$old" "$new"; sleep 1; exec vim -n -u NONE -i NONE -N numbers'
    )
    process_id = start(own_server, command, token=token, env=_ENV, cwd=str(tmp_path))
    while b"asked" not in written(own_server, process_id):
        time.sleep(0.02)
    (script,) = re.findall(r"```js\n(function attach.*?)```", page("docs/ws-terminal.md"), re.DOTALL)
    url = f"ws://127.0.0.1:{own_server.port}/ws/terminal/{process_id}"
    shown = emulator(own_server, process_id, is_open=False)
    shown.follow_example(script, url, token)
    shown.wait_text("asked")
    (tmp_path / "go").touch()
    shown.wait_text("old [''] new [$'\\E[2;1']")
    shown.wait_text("number 1\n")
    own_server.kill()
    own_server.start()
    while not Requests(own_server)("GET", "/health").body["connections"]:
        time.sleep(0.02)  # it dials by itself
    for _ in range(60):  # what is typed before it has the server's hello goes nowhere
        shown.type("G:set number\r")
        time.sleep(0.5)
        if "200 number 200" in shown.look().text:
            break
    look = shown.wait_text("200 number 200")
    fresh = emulator(own_server, process_id, is_open=False)
    fresh.follow_example(script, url, token)
    assert fresh.wait_text("200 number 200").lines == look.lines
    shown.type(":q!\r")
    shown.wait(lambda _: shown.closed == {"code": 1000, "reason": "exited with 0"})


def _closed(shown: Emulator) -> dict[str, object]:
    shown.wait(lambda _: shown.closed is not None)
    found = shown.closed
    assert found is not None
    return found
