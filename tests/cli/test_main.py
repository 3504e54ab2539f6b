"""The command line itself: help of every verb, version, refusals, and one table for help and behaviour."""

import os
import subprocess

import pytest

from outlive import __version__
from outlive.cli.main import refusal
from outlive.cli.runner import run_program
from outlive.cli.server import serve as serve_verb
from outlive.config import all_options
from tests.cli.launching import run
from tests.support.server import outlive_command

_WIDE = {"COLUMNS": "200", "NO_COLOR": "1"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Runs commands that outlive"),
        (["--help"], "keeper"),
        (["serve", "--help"], "Ctrl-C stops the server, not the processes"),
        (["keeper", "--help"], "upgrade"),
        (["keeper", "status", "--help"], "--json"),
        (["keeper", "upgrade", "--help"], "--state-dir"),
        (["keeper", "stop", "--help"], "--kill"),
        (["doctor", "--help"], "--json"),
        (["keeper", "run", "--help"], "--state-dir"),
        (["mcp", "--help"], "--state-dir"),
        (["install", "--help"], "--dry-run"),
        (["service", "--help"], "uninstall"),
        (["service", "install", "--help"], "--account"),
        (["service", "uninstall", "--help"], "--system"),
        (["service", "status", "--help"], "--json"),
        (["completion", "--help"], "--install"),
    ],
)
def test_every_verb_explains_itself(words: list[str], said: str) -> None:
    answer = run(*words, env=_WIDE)
    assert answer.returncode in ({0} if words else {0, 2})  # "no verb" is a usage error
    assert said in answer.stdout + answer.stderr


def test_the_help_of_serve_lists_every_option_with_its_environment() -> None:
    answer = run("serve", "--help", env=_WIDE).stdout
    for option in all_options():
        assert option.flag in answer
        assert option.env[0] in answer


def test_the_version_is_said_both_ways() -> None:
    assert run("--version").stdout == f"outlive {__version__}\n"
    assert run_program(["--version"]) == 0


@pytest.mark.parametrize(
    "words", [["serve", "--jsonrpc-prt", "1"], ["frob"], ["keeper", "frob"], ["serve", "word"]]
)
def test_a_mistake_is_a_usage_error_with_a_hint(words: list[str]) -> None:
    answer = run(*words, env=_WIDE)
    assert answer.returncode == 2
    assert "--help" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("platform", "version", "said"),
    [
        ("darwin", (3, 12, 1), "needs Linux"),
        ("win32", (3, 8, 0), "needs Linux"),
        ("linux", (3, 10, 9), "needs Python 3.11 or newer; this is 3.10"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(
    platform: str, version: tuple[int, ...], said: str
) -> None:
    sentence = refusal(platform, version)
    assert sentence is not None
    assert said in sentence
    assert sentence.count(".") == sentence.count("3.") + 1 or "Linux" in sentence


def test_what_can_work_is_not_refused() -> None:
    assert refusal("linux", (3, 11, 0)) is None
    assert refusal("linux", (4, 0, 0)) is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], {}),
        (["--jsonrpc-port", "0", "--print-json"], {"jsonrpc_port": "0", "print_json": "on"}),
        (["--state-dir", "/a b", "--jsonrpc-port=0"], {"state_dir": "/a b", "jsonrpc_port": "0"}),
        (["--state-dir=/a=b", "--grace", "1s", "--grace=2"], {"state_dir": "/a=b", "grace_s": "2"}),
        (["--allowed-commands", "ls,cat", "--deny", ""], {"allowed_commands": "ls,cat", "deny": ""}),
        (["--self-started", "--no-hello"], {"hello_off": "on"}),
    ],
)
def test_serve_takes_the_flags_of_the_table_as_text(
    words: list[str], found: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[dict[str, str], bool]] = []

    def run(flags: dict[str, str], *, is_self_started: bool) -> int:
        seen.append((flags, is_self_started))
        return 7

    monkeypatch.setattr(serve_verb, "run", run)
    assert run_program(["serve", *words]) == 7
    assert seen == [(found, "--self-started" in words)]


def test_a_reader_that_leaves_early_is_no_accident() -> None:
    """`outlive --version | true`: a broken pipe ends quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as nobody_reads:
        ended = subprocess.run(
            [*outlive_command(), "--version"], stdout=nobody_reads, stderr=subprocess.PIPE, check=False
        )
    assert (ended.returncode, ended.stderr) == (1, b"")
