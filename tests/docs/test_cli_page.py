"""docs/cli.md says what the verbs that set outlive up really take, write and answer."""

import contextlib
import json
import re
from pathlib import Path

import pytest

from outlive.cli.completion import complete_words
from outlive.cli.machine.completion_scripts import SHELLS, script_path
from outlive.client import Client, InvalidState
from outlive.extensions.hosts.entry import config_path
from outlive.extensions.hosts.table import HOSTS
from tests.cli.launching import run
from tests.docs.pages import page, section, table_rows, words
from tests.support.server import OutliveServer, run_outlive

_PAGE = page("docs/cli.md")
_COMMON = {"--help", "--json", "--no-start", "--state-dir"}
_GROUPS = {"audit", "config", "containers", "keeper", "node", "policy", "service", "terminal", "token"}
_GO_ON = {
    "attach",
    "keeper run",
    "mcp",
    "serve",
    "terminal attach",
}  # what they print is not theirs, or for people


@pytest.mark.parametrize(
    ("heading", "verbs"),
    [
        ("## `outlive run`", [["run"]]),
        ("## `outlive attach`", [["attach"]]),
        ("## `outlive up`, `down`", [["up"], ["down"]]),
        ("## `outlive ps`", [["ps"]]),
        ("## `outlive restart`, `rerun`", [["restart"], ["rerun"]]),
        ("## `outlive search`", [["search"]]),
        ("## `outlive inspect`", [["inspect"]]),
        ("## `outlive logs`", [["logs"]]),
        ("## `outlive wait`", [["wait"]]),
        ("## `outlive send`", [["send"]]),
        (
            "## `outlive pause`, `resume`, `stop`, `kill`, `signal`",
            [["pause"], ["resume"], ["stop"], ["kill"], ["signal"]],
        ),
        ("## `outlive stats`", [["stats"]]),
        ("## `outlive events`", [["events"]]),
        (
            "## `outlive terminal`",
            [["terminal", verb] for verb in ("ls", "new", "exec", "send", "read", "attach", "close")],
        ),
        ("## `outlive tag`", [["tag"]]),
        ("## `outlive rm`", [["rm"]]),
        ("## `outlive prune`", [["prune"]]),
        ("## `outlive approvals`, `approve`, `deny`", [["approvals"], ["approve"], ["deny"]]),
        ("## `outlive policy check`", [["policy", "check"]]),
        ("## `outlive audit`", [["audit", verb] for verb in ("show", "verify")]),
        ("## `outlive install`, `uninstall`", [["install"], ["uninstall"]]),
        ("## `outlive service`", [["service", verb] for verb in ("install", "uninstall", "status")]),
        ("## `outlive ui`", [["ui"]]),
        ("## `outlive completion`", [["completion"]]),
    ],
)
def test_every_flag_is_described_and_no_other(heading: str, verbs: list[list[str]]) -> None:
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", section(_PAGE, heading))) - {"--now"}
    taken = {word for verb in verbs for word, _ in complete_words([*verb, "--"])}
    assert told | _COMMON == taken | _COMMON
    assert told <= taken


@pytest.mark.parametrize(
    ("heading", "typed"),
    [
        ("## `outlive logs`", ["logs"]),
        ("## `outlive logs`", ["logs", "--grep", "line"]),
        ("## `outlive send`", ["send", "--eof"]),
        ("## `outlive pause`, `resume`, `stop`, `kill`, `signal`", ["pause"]),
        ("## `outlive stats`", ["stats", "--no-stream"]),
        ("## `outlive tag`", ["tag", "a=b"]),
        ("## `outlive prune`", ["prune", "--dry-run"]),
    ],
)
def test_every_key_of_an_answer_about_processes_is_described(
    server: OutliveServer, heading: str, typed: list[str]
) -> None:
    with Client(server.state_dir, start_server=False) as client:
        client.start("true").wait(30, until="closed")
        process = client.start("echo line; cat", stdin="pipe")
        with process.follow() as items:
            next(items)  # its line is there
        verb, *more = typed
        words_typed = [verb, *([] if verb == "prune" else [process.process_id]), *more, "--json"]
        done = run_outlive(*words_typed, state_dir=server.state_dir)
        with contextlib.suppress(InvalidState):  # --eof has ended it
            process.cancel(0)
    assert done.returncode == 0, done.stderr
    told = set(words(section(_PAGE, heading).partition("`--json` prints")[2]))
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        assert set(answer) <= told
        for one in answer.get("processes", []):
            assert set(one) <= told


def _verbs(before: list[str]) -> list[str]:
    """Return every verb below these words, with its words."""
    found = []
    for word, _ in complete_words([*before, ""]):
        below = _verbs([*before, word]) if [*before, word][-1] in _GROUPS else []
        found += below or [" ".join([*before, word])]
    return found


def test_every_verb_is_named_and_those_that_answer_take_json() -> None:
    everything = "".join(map(page, ("docs/cli.md", "docs/keeper.md", "docs/settings.md", "docs/mcp.md")))
    for verb in _verbs([]):
        name = verb.split()[-1]
        assert f"outlive {verb}" in everything or f"`{name}`" in _PAGE, f"{verb} is described nowhere"
        has_json = "--json" in {word for word, _ in complete_words([*verb.split(), "--"])}
        assert has_json or verb in _GO_ON, verb


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_had_by_both_names(word: str) -> None:
    for typed in ([word], ["ps", word], ["keeper", "stop", word], ["serve", word]):
        done = run(*typed)
        assert (done.returncode, done.stdout.startswith("Usage: outlive")) == (0, True)


def test_the_table_of_files_is_the_one_in_the_code() -> None:
    rows = {words(row[0])[0]: row for row in table_rows(page("docs/install.md"), "host")}
    assert set(rows) == set(HOSTS)
    for name, host in HOSTS.items():
        _, user, project, under = rows[name]
        path = config_path(host, {"HOME": "/h"}).replace("/h/", "~/") if host.files else None
        # The variable for ~/.config is told once, for all.
        moved = [f"${host.moved_by}"] if host.moved_by not in {"", "XDG_CONFIG_HOME"} else []
        assert words(user) == ([path, *moved] if path else [])
        assert words(project) == list(host.project_files[:1])
        assert words(under) == list(host.section)


def test_scripts_are_installed_where_the_page_says() -> None:
    told = section(_PAGE, "## `outlive completion`")
    for shell in SHELLS:
        assert f"`{script_path(shell, {'HOME': '/h'}).replace('/h/', '~/')}`" in " ".join(told.split())


@pytest.mark.parametrize(
    ("heading", "typed"),
    [
        ("## `outlive install`, `uninstall`", ["install", "cursor", "--dry-run"]),
        ("## `outlive install`, `uninstall`", ["uninstall", "--all"]),
        ("## `outlive service`", ["service", "install", "--dry-run"]),
        ("## `outlive service`", ["service", "status"]),
        ("## `outlive completion`", ["completion", "bash"]),
        ("## `outlive completion`", ["completion", "fish", "--install"]),
    ],
)
def test_every_key_of_an_answer_is_described(heading: str, typed: list[str], tmp_path: Path) -> None:
    done = run(
        *typed,
        "--json",
        env={"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""},
        cwd=tmp_path,
    )
    assert done.stdout.count("\n") == 1
    told = set(words(section(_PAGE, heading).partition("`--json` prints")[2]))
    answer = json.loads(done.stdout)
    assert set(answer) <= told
    for file in answer.get("files", []):
        assert set(file) <= told
