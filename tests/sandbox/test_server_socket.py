"""The server's own socket, asked from inside of each profile: only a token counts there (issue 19, 1)."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.command import Profile
from tests.attacks.attacking import create_token
from tests.keeper.house import shim_program
from tests.sandbox.houses import USERS
from tests.sandbox.ordinary import NOBODY, open_folder, ordinary_outlive, own_folder
from tests.support.server import OutliveServer, outlive_command

# Nothing of ours: a request as bytes, over the Unix socket.
_ASKING = """
import json, socket, sys
path, token = sys.argv[1:3]
with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(60)
    try:
        link.connect(path)
    except OSError as error:
        sys.exit(print(json.dumps(type(error).__name__)))
    shown = f"Authorization: Bearer {token}\\r\\n" if token else ""
    link.sendall(f"GET /v1/processes HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n{shown}\\r\\n".encode())
    answer = b""
    while chunk := link.recv(65536):
        answer += chunk
head, _, body = answer.partition(b"\\r\\n\\r\\n")
print(json.dumps([int(head.split()[1]), body.decode(errors="replace")]))
"""  # noqa: E501 -- lines of a table, or of another language


@pytest.fixture(params=USERS)
def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[OutliveServer, Path]]:
    """A server of ours and one of an ordinary user, each with a folder for its commands."""
    if request.param == "ours":
        (tmp_path / "w").mkdir()
        yield request.getfixturevalue("server"), tmp_path / "w"
        return
    if not (words := ordinary_outlive()):
        pytest.skip("no other user can run outlive here")
    with open_folder() as folder:
        monkeypatch.setenv("OUTLIVE_TEST_COMMAND", shlex.join(words))
        monkeypatch.setenv("HOME", str(own_folder(folder / "home")))
        shim_program()  # compiled by us: that user may not write into the package
        with OutliveServer(own_folder(folder / "state")) as server:
            assert f"\nUid:\t{NOBODY}\t" in Path(f"/proc/{server.pid}/status").read_text()
            yield server, own_folder(folder / "w")


@pytest.mark.thorough
@pytest.mark.promise("A.inside", "A.token")
@pytest.mark.parametrize("profile", list(Profile), ids=lambda one: one.value)
def test_the_servers_socket_answers_a_command_with_its_token_only(
    served: tuple[OutliveServer, Path], profile: Profile
) -> None:
    server, workspace = served
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    socket = str(server.state_dir / "server.sock")

    def ask(token: str) -> object:
        words = [*outlive_command(), "run", "--state-dir", str(server.state_dir), "--profile", profile.value]
        done = subprocess.run(
            [*words, "--", python, "-I", "-S", "-c", _ASKING, socket, token],
            cwd=workspace,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        if "sandbox_unavailable" in done.stderr:
            pytest.skip(done.stderr)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    refused, let_in = ask(""), ask(create_token(server, "read"))
    if profile is Profile.SEALED:  # the socket is not there
        assert {str(refused), str(let_in)} == {"FileNotFoundError"}
        return
    assert isinstance(refused, list)
    assert isinstance(let_in, list)
    assert refused[0] in {401, 403}, refused
    assert "processes" not in refused[1]
    assert let_in[0] == 200, let_in
