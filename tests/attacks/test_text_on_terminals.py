"""Every verb of the command line at a terminal, with hostile texts in all that servers, nodes, files, the
environment and arguments say: the terminal obeys none of them, and none passes for a line of outlive's.
"""

import json
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlive.cli.operator.audit import trail_of
from outlive.cli.program import Verb, program
from outlive.core.layout import Layout
from outlive.store.token_file import TokenFile
from tests.attacks.hostile_texts import HOSTILE, obeyed
from tests.cli.forked_calls import Called, ForkedCalls, forked_calls, verbs_of
from tests.rest.rest_caller import RestCaller
from tests.support.raw import http_get
from tests.support.server import OutliveServer

pytestmark = pytest.mark.promise("A.terminal")

_POISON, _NONE = "tests.attacks.hostile_texts:poison", "tests.attacks.hostile_texts:none"
_VERBS = verbs_of(program())
_FOLDER_NAME = HOSTILE.replace("/", "")  # of a folder or a file
# Each verb that asks a server, with answers that are hostile. `web` and the service `job` live, `old` has
# ended, `FIRST` to `THIRD` live until they are ended here, `shell` is a terminal.
_ASKED = """
ps --all | ps -q | ps web | inspect web old | stats --no-stream | stats --no-stream web | df | search word
search forged | wait loud | wait old | wait web --timeout 0.1 | tag web a=b | send web yes | answer web
pause web | resume web | signal HUP web | rename web WORD | logs old web
attach old | rerun old | restart web | approvals
deny nothing | approve nothing | cp /etc/hostname local:/tmp | cp PLACE/from PLACE/to | ui --print
up -d --timeout 1 | up -d --no-wait | down --timeout 1 | run -d -- true | run -- PLACE/nothing
run --need cpu=1 -d -- true | logs old
node ls | node inspect local | node add far http://127.0.0.1:9 | node drain local | node resume local
node adopt far | node rm far | node invite other | node leave far
node join ws://127.0.0.1:9 --token-file /etc/hostname
terminal ls | terminal new | terminal exec -t shell echo word | terminal send shell yes | terminal read shell
terminal close shell | kill FIRST | stop SECOND | rm --force THIRD | prune --dry-run | prune --yes
"""
# Those that work on files and processes of this machine, and mistakes in words.
_HERE = """
audit show | audit verify | audit begin | config show --origin | policy check WORD | policy always
policy forget WORD | doctor | token create --name WORD | token list | token revoke WORD | containers ls
containers rm WORD | backup WORD | backup FOLDER/b | restore WORD | restore --dry-run FOLDER | keeper status
keeper upgrade | keeper stop | keeper run | service install --dry-run | service status
service uninstall --dry-run
install claude-code | install codex | install goose | install --all --dry-run | install WORD
uninstall claude-code | uninstall --all --dry-run | completion bash | completion fish --install
completion WORD | stop-server
serve --jsonrpc-port WORD | serve --profile WORD | mcp --mcp-tools WORD | logs WORD | terminal attach WORD
events WORD | up -f WORD | up -f FOLDER/services.toml | run --env WORD | run --cwd WORD -- true | WORD
ps --tag WORD | ps --WORD | WORD WORD | search -E ( | prune --state WORD | wait web --for WORD
--host http://WORD ps
"""


@dataclass(frozen=True, slots=True)
class World:
    """A server, a project in which all calls are made, and what makes them."""

    server: OutliveServer
    calls: ForkedCalls
    folder: Path

    def call(
        self,
        words: Sequence[str],
        *,
        prelude: str,
        env: Mapping[str, str] | None = None,
        patience_s: int = 10,
    ) -> Called:
        """Call a verb at a terminal of its own."""
        known = {"OUTLIVE_STATE_DIR": str(self.server.state_dir), "SHELL": "/bin/bash", "TERM": "xterm"}
        known |= {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / "config")}
        return self.calls.call(
            words, env=known | dict(env or {}), cwd=self.folder, prelude=prelude, patience_s=patience_s
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("people") / _FOLDER_NAME
    folder.mkdir()
    (folder / "outlive.processes.toml").write_text('[services.job]\ncommand = "exec sleep 60"\n')
    name = json.dumps(HOSTILE)
    (folder / "services.toml").write_text(f"[services.{name}]\ncommand = {name}\n")
    with (
        OutliveServer(folder.parent / "state", args=["--ask", "printf"]) as server,
        forked_calls() as calls,
    ):
        world = World(server, calls, folder)
        for words in (
            *(f"run -d --name {name} -- sleep 60" for name in ("web", "FIRST", "SECOND", "THIRD")),
            "run -d --name old --tag kind=old -- echo word",
            "wait old",
            "terminal new --name shell",
            "up -d",
        ):
            done = world.call(shlex.split(words), prelude=_NONE)
            assert done.code == 0, (words, done)
        world.call(["run", "-d", "--name", "loud", "--", "echo", HOSTILE], prelude=_NONE)
        RestCaller(server.rest_url).start(argv=["printf", HOSTILE], cwd=str(folder))
        yield world


def _lines(text: str) -> list[str]:
    return [one.strip() for line in text.split("|") for one in line.strip().split("\n") if one.strip()]


def _words(line: str, folder: Path) -> list[str]:
    known = {"WORD": HOSTILE, "PLACE": _FOLDER_NAME, "FOLDER": str(folder)}
    words = line.replace("(", "'('")
    found = shlex.split(words)
    for name, value in known.items():
        found = [word.replace(name, value) for word in found]
    return found


def test_no_verb_is_left_out() -> None:
    """A new verb is tried here, too."""
    tried = {" ".join(line.split()[:2]) for line in _lines(_ASKED) + _lines(_HERE)}
    assert set(_VERBS) - tried - {one.split()[0] for one in tried} == set()


@pytest.mark.thorough
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_answer_of_a_server_reaches_the_terminal_as_it_is(world: World, *, as_json: bool) -> None:
    faults, reached = {}, 0
    for line in _lines(_ASKED):
        words = _words(line, world.folder)
        if as_json:
            takes = {flag for one in _verb(words).action.parameters for flag in one.flags}
            if "--json" not in takes:
                continue
            words.insert(2 if words[0] in {"node", "terminal"} else 1, "--json")
        done = world.call(words, prelude=_POISON)
        # The lines of a terminal are a program's own.
        shown = done.out.replace("\noutlive: forged", "\n") if "read" in words else done.out
        if found := obeyed(shown):
            faults[line] = (found, done.out[:500])
        assert "Traceback" not in done.out, (line, done.out)
        assert "fault of outlive" not in done.out, (line, done.out)
        reached += "\\noutlive: forged" in done.out
    assert not faults, faults
    assert reached > 20  # texts did come


def _verb(words: Sequence[str]) -> Verb:
    return _VERBS.get(" ".join(words[:2])) or _VERBS[words[0]]


@pytest.mark.thorough
def test_no_event_and_no_completed_word_reaches_the_terminal_as_it_is(world: World) -> None:
    completed = world.call(
        ["inspect", ""], prelude=f"{_POISON}_own_project", env={"_OUTLIVE_COMPLETE": "fish"}
    )
    assert "web" in completed.out
    assert obeyed(completed.out) == ""
    rest, is_over = RestCaller(world.server.rest_url), threading.Event()

    def go_on() -> None:
        while not is_over.wait(0.2):
            rest.start(argv=["true"])

    thread = threading.Thread(target=go_on)
    thread.start()
    seen = world.call(["events"], prelude=_POISON, patience_s=3)
    is_over.set()
    thread.join()
    assert "started" in seen.out
    assert obeyed(seen.out) == ""


@pytest.mark.thorough
def test_no_file_argument_or_variable_reaches_the_terminal_as_it_is(world: World, tmp_path: Path) -> None:
    hostile = tmp_path / _FOLDER_NAME
    hostile.mkdir()
    state_dir = hostile / "state"
    state_dir.mkdir(mode=0o700)
    layout = Layout(str(state_dir))
    env = {"OUTLIVE_STATE_DIR": str(state_dir), "HOME": str(hostile), "XDG_CONFIG_HOME": str(hostile / "c")}
    env |= {"OUTLIVE_DENY": f"{HOSTILE},rm", "DOCKER_HOST": f"unix://{HOSTILE}", "OUTLIVE_PRROFILE": "x"}
    made = world.call(["token", "create"], prelude=_NONE, env=env)
    assert made.code == 0, made
    entry = dict.fromkeys(("at", "what", "principal", "command", "path", HOSTILE), HOSTILE)
    trail_of(layout, makes_key=True).append([{**entry, "exit": [HOSTILE]}])
    tokens = Path(TokenFile(layout).path)
    tokens.write_text(tokens.read_text().replace("token-1", json.dumps(HOSTILE)[1:-1]))
    faults = {}
    for line in _lines(_HERE):
        done = world.call(_words(line, hostile), prelude=_NONE, env=env)
        if found := obeyed(done.out):
            faults[line] = (found, done.out[:500])
        assert "Traceback" not in done.out, (line, done.out)
        assert "fault of outlive" not in done.out, (line, done.out)
    assert not faults, faults


@pytest.mark.thorough
def test_no_verb_shows_a_state_folders_name_as_it_is(world: World, tmp_path: Path) -> None:
    file = tmp_path / _FOLDER_NAME
    file.write_text("no folder")
    faults = {}
    for line in _lines(_ASKED) + _lines(_HERE):
        done = world.call(_words(line, file), prelude=_NONE, env={"OUTLIVE_STATE_DIR": str(file)})
        if found := obeyed(done.out):
            faults[line] = (found, done.out[:500])
    assert not faults


@pytest.mark.thorough
def test_a_damaged_identity_is_not_quoted(world: World, tmp_path: Path) -> None:
    for content in (f"9 {HOSTILE}", HOSTILE, "9 \x9b2J"):
        folder = tmp_path / f"{len(content)}"
        folder.mkdir(mode=0o700)
        (folder / "identity").write_text(content)
        done = world.call(["ps"], prelude=_NONE, env={"OUTLIVE_STATE_DIR": str(folder)})
        assert done.code == 1
        assert "does not say of which format" in done.out
        assert obeyed(done.out) == ""


@pytest.mark.thorough
def test_a_strangers_request_is_shown_harmless_by_the_audit_log(world: World) -> None:
    """A page that gets a 403, from outside: no client of ours made the request."""
    port = world.server.ready["ports"]["rest"]
    path = "/v1/\x1b]52;c;eA==\x07\x9b2J\u202e"
    assert http_get(port, path, headers={"Origin": f"http://e{path}"}).status in {400, 403}
    path = "/v1/%1b%5d52;c;eA==%07%c2%9b2J%e2%80%ae%0aoutlive:%20forged"
    assert http_get(port, path, headers={"Origin": "http://evil.example"}).status == 403
    done = world.call(["audit", "show"], prelude=_NONE)
    assert obeyed(done.out) == ""
