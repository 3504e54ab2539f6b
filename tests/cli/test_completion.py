"""`outlive completion`: what real shells complete, where the scripts are installed, and how long it takes."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outlive.cli.completion import complete_words
from outlive.cli.machine.completion_scripts import SHELLS, script_path
from outlive.core.errors import ConfigInvalid
from tests.cli.launching import environment, run
from tests.support.server import outlive_command

pytestmark = pytest.mark.thorough

_PATH = f"{Path(outlive_command()[0]).parent}:{os.environ['PATH']}"


def _shell(program: str, script: str, *words: str, home: Path) -> str:
    done = subprocess.run(
        [program, *words, script],
        env=environment({"PATH": _PATH, "HOME": str(home), "TERM": "dumb"}),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def _bash(words: list[str], *, home: Path) -> list[str]:
    """Press the key behind `words` in a real bash; return what it would offer."""
    listed = " ".join(f"'{word}'" for word in words)
    script = f"""
        source <(outlive completion bash)
        complete -p outlive >/dev/null
        COMP_WORDS=({listed}) COMP_CWORD={len(words) - 1}
        _outlive_completion outlive
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return _shell("bash", script, "--norc", "-c", home=home).split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["serv"], {"serve", "service"}),
        (["service", ""], {"install", "uninstall", "status"}),
        (["install", "cl"], {"claude-code", "claude-desktop", "cline", "cline-vscode"}),
        (["install", "--name", "a b", "vs"], {"vscode"}),
        (["completion", ""], set(SHELLS)),
        (["keeper", "stop", "--k"], {"--kill"}),
        (["events", "--event", "re"], {"recovered", "relabeled", "resumed", "removed", "rejected"}),
        (["events", "--state", "s"], {"starting", "stopping", "signaled"}),
        (["prune", "--state", "l"], {"lost"}),
        (["logs", "--stream", "std"], {"stdout", "stderr"}),
        (["prune", "--dr"], {"--dry-run"}),
        (["run", "--wait-for", ""], set()),
        (["tag", "x", ""], set()),
        (["serve", "--jsonrpc"], {"--jsonrpc-port"}),
        (["service", "install", "--sy"], {"--system"}),
        (["install", "cursor", ""], set()),
        (["install", "--name", "v"], set()),
        (["frob", ""], set()),
    ],
)
def test_bash_offers_verbs_options_and_choices(words: list[str], offered: set[str], tmp_path: Path) -> None:
    assert set(_bash(["outlive", *words], home=tmp_path)) == offered


def test_every_verb_and_option_can_be_completed() -> None:
    verbs = [word for word, _ in complete_words([""])]
    assert {"serve", "keeper", "install", "service", "completion", "mcp", "doctor", "config"} <= set(verbs)
    assert all(about for _, about in complete_words([""]))
    shown = run("install", "--help", env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown.partition("Options")[2]))
    assert {word for word, _ in complete_words(["install", "--"])} == told
    assert complete_words([]) == complete_words([""])


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish on this machine")
def test_fish_offers_them_with_their_help(tmp_path: Path) -> None:
    script = 'outlive completion fish | source; complete -C "outlive serv"; complete -C "outlive install vs"'
    lines = _shell("fish", script, "--no-config", "-c", home=tmp_path).splitlines()
    assert [line.partition("\t")[0] for line in lines] == ["serve", "service", "vscode"]
    assert "systemd" in lines[1]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh on this machine")
def test_zsh_asks_for_the_words_and_describes_them(tmp_path: Path) -> None:
    """With zsh's own completion system loaded; what it would draw is caught where it is handed over."""
    script = """
        autoload -Uz compinit && compinit -D -u
        source <(outlive completion zsh)
        [[ $_comps[outlive] == _outlive ]] || exit 1
        _describe() { print -l -- "${found[@]}" }
        _files() { print files }
        words=(outlive install vs) CURRENT=3; _outlive
        words=(outlive serv) CURRENT=2; _outlive
        words=(outlive install cursor "") CURRENT=4; _outlive
    """
    lines = _shell("zsh", script, "-f", "-c", home=tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["vscode", "serve", "service", "files"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_or_installed_once(shell: str, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}
    assert run("completion", shell, env=env).stdout == SHELLS[shell]
    assert json.loads(run("completion", shell, "--json", env=env).stdout)["script"] == SHELLS[shell]
    path = Path(script_path(shell, env))
    assert path.is_relative_to(tmp_path)
    done = run("completion", shell, "--install", env=env)
    assert done.returncode == 0, done.stderr
    assert str(path) in done.stdout
    assert path.read_text() == SHELLS[shell]
    again = json.loads(run("completion", shell, "--install", "--json", env=env).stdout)
    assert again == {"shell": shell, "path": str(path), "changed": False, "backup": None}
    assert run("completion", shell, "--install", env=env).stdout.startswith("Nothing to do")


def test_without_a_home_nothing_is_installed_and_an_unknown_shell_is_a_usage_error() -> None:
    with pytest.raises(ConfigInvalid, match="HOME is not set"):
        script_path("bash", {})
    assert run("completion", "tcsh").returncode == 2


def _cpu_s(words: list[str], **env: str) -> float:
    """Return the processor time of a program: not the clock, which others on the machine slow down."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=environment(env), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.alone
def test_completing_takes_less_than_five_times_what_python_takes_for_nothing() -> None:
    nothing, ours = [], []
    for _ in range(15):
        nothing.append(_cpu_s([sys.executable, "-c", "pass"]))
        ours.append(_cpu_s([*outlive_command(), "install", "c"], _OUTLIVE_COMPLETE="bash"))
    ratio = min(ours) / min(nothing)
    print(f"completing takes {ratio:.2f} times `python -c pass`")
    assert ratio < 5


def test_completing_imports_nothing_that_only_a_verb_needs() -> None:
    """What the slow test measures, held at every run without a clock."""
    code = (
        "import sys; from outlive.cli.completion import complete_words; complete_words(['install', "
        "'c']); print(*sys.modules)"
    )
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = {"argparse", "pydantic", "uvicorn", "starlette", "mcp", "uvloop", "asyncio"}
    assert loaded & heavy == set()
