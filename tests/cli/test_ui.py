"""`outlive ui` starts a browser with a file's path, and with nothing else."""

import json
import re
import stat
from pathlib import Path

import pytest

from tests.support.server import OutliveServer, run_outlive

_NO_SCREEN = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "WSL_DISTRO_NAME": "", "BROWSER": ""}


def _code_in(path: str) -> str:
    found = re.search(r'name="code" value="([^"]+)"', Path(path).read_text())
    assert found is not None
    return found[1]


@pytest.mark.promise("U.code.file")
def test_the_browser_is_started_with_the_path_of_a_private_file(
    server: OutliveServer, tmp_path: Path
) -> None:
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}.new\ntr "\\0" " " < /proc/$$/cmdline >> {told}.new\nmv '
        f"{told}.new {told}\n"
    )
    browser.chmod(0o700)
    done = run_outlive("ui", state_dir=server.state_dir, env={**_NO_SCREEN, "BROWSER": str(browser)})
    assert (done.returncode, done.stdout) == (0, ""), done
    assert "with the scope admin" in done.stderr
    address, words = told.read_text().splitlines()[0], told.read_text()
    path = address.removeprefix("file://")
    assert Path(path).parent == server.state_dir / "ui"
    found = Path(path).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_nlink) == (0o600, 1)
    code = _code_in(path)
    assert code not in words + done.stderr
    port = server.ready["ports"]["rest"]
    assert f'action="http://127.0.0.1:{port}/ui/session"' in Path(path).read_text()


@pytest.mark.parametrize("words", [(), ("--print",)])
def test_without_a_browser_the_file_is_named(server: OutliveServer, words: tuple[str, ...]) -> None:
    done = run_outlive("ui", *words, state_dir=server.state_dir, env=_NO_SCREEN)
    assert done.returncode == 0, done.stderr
    assert _code_in(done.stdout.strip())
    assert ("no browser was found" in done.stderr) is (not words)


def test_json_tells_file_address_scope_and_time(server: OutliveServer) -> None:
    done = run_outlive("ui", "--scope", "read", "--json", state_dir=server.state_dir)
    answer = json.loads(done.stdout)
    port = server.ready["ports"]["rest"]
    told = {"address": f"http://127.0.0.1:{port}/", "scope": "read", "expires_s": 60.0}
    assert answer == {"file": answer["file"], **told}


def test_open_means_the_same(server: OutliveServer) -> None:
    assert run_outlive("open", "--print", state_dir=server.state_dir).stdout.strip().endswith(".html")


def test_what_cannot_be_opened_is_said(server: OutliveServer, tmp_path: Path) -> None:
    wrong = run_outlive("ui", "--scope", "everything", state_dir=server.state_dir)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    none = run_outlive("ui", "--no-start", state_dir=tmp_path / "nowhere")
    assert none.returncode == 1
    assert "No server runs" in none.stderr
    far = run_outlive("--host", "ws://127.0.0.1:1/ws/mcp", "ui", state_dir=server.state_dir)
    assert far.returncode == 1
    assert "works on this machine only" in far.stderr


def test_a_server_without_ports_has_no_page(tmp_path: Path) -> None:
    off = [word for name in ("jsonrpc", "mcp", "rest", "bridge") for word in (f"--{name}-port", "off")]
    with OutliveServer(tmp_path / "state", args=off) as closed:
        refused = run_outlive("ui", "--print", state_dir=closed.state_dir)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no port" in refused.stderr
