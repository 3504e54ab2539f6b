"""Every block of code in the pages is executed or checked by a test, or says why it is not."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator

from outlive.cli.completion import complete_words
from tests.docs.pages import ROOT, page

_PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
)
_BLOCK = re.compile(r"^```(\w*).*?^```$", re.MULTILINE | re.DOTALL)

# Modules that take blocks of a page in a way of their own, which `_takes` does not see.
_TAKEN_BY = {
    ("docs/contributing/README.md", "diff"): "tests/docs/test_contributing.py",
    ("docs/contributing/README.md", "python"): "tests/docs/test_contributing.py",
    ("docs/contributing/README.md", "sh"): "tests/docs/test_contributing.py",
    ("docs/jsonrpc.md", "json"): "tests/docs/test_jsonrpc_page.py",
    ("docs/jsonrpc.md", "python"): "tests/docs/test_jsonrpc_page.py",
    ("docs/mcp.md", "transcript"): "tests/docs/test_mcp_page.py",
    ("docs/ws-terminal.md", "python"): "tests/docs/test_ws_terminal_page.py",
}
# Those that no test takes as they are: how many, and why.
_EXEMPT = {
    ("docs/architecture.md", ""): (1, "A drawing; tests/docs/test_architecture.py looks for what it names."),
    ("docs/contributing/README.md", "toml"): (
        1,
        "Two lines of the example that tests/extensions/test_toy.py installs.",
    ),
    ("docs/jsonrpc.md", ""): (
        1,
        "A frame whose newlines are drawn as marks; tests/jsonrpc reads such frames.",
    ),
    ("docs/mcp.md", ""): (1, "An answer about a password, which tests/mcp_tools/test_waits.py asks for."),
    ("docs/mcp.md", "json"): (
        2,
        "A task, whose members tests/mcp_http/test_tasks.py asks for; and a file, in test_mcp_page.",
    ),
    ("docs/ws-terminal.md", "js"): (
        3,
        "One is in a page that tests/xterm/test_browser.py opens; the others are two lines of it.",
    ),
}


def _counts() -> dict[tuple[str, str], int]:
    found = {name: Counter(_BLOCK.findall(page(name))) for name in _PAGES}
    return {(name, language): count for name, kinds in found.items() for language, count in kinds.items()}


def _takes(text: str, name: str, language: str) -> bool:
    """Return whether a test module reads that page, and takes its blocks of that language: a slip of the pen
    is not looked for.
    """
    if f'"{name}"' not in text:
        return False
    taken = rf'blocks\([^\n]*, "{language}"\)'
    return re.search(taken, text) is not None or (language == "console" and "commands(" in text)


def test_every_block_is_taken_by_a_test_or_says_why_not() -> None:
    found = set(_counts())
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    seen = {place for place in found if any(_takes(text, *place) for text in texts)}
    assert found - seen - set(_TAKEN_BY) - set(_EXEMPT) == set(), "add a test, or a reason"
    assert (set(_TAKEN_BY) | set(_EXEMPT)) - found == set(), "the page has no such block any more"
    assert set(_TAKEN_BY) & set(_EXEMPT) == set()
    assert len(seen) > 10
    for (name, language), module in _TAKEN_BY.items():
        assert language in (ROOT / module).read_text(encoding="utf-8"), f"{module}: {name}"


def test_a_block_without_a_test_is_counted_and_has_a_reason() -> None:
    counts = _counts()
    for place, (count, reason) in _EXEMPT.items():
        assert counts[place] == count, place
        assert reason.endswith("."), place
        assert len(reason.split()) > 4, place


_GROUPS = {"audit", "config", "containers", "keeper", "node", "policy", "service", "terminal", "token"}


def _typed() -> Iterator[tuple[str, list[str]]]:
    """Yield verb and words of every indented command of a page, without what stands for several verbs."""
    for name in _PAGES:
        for line in re.findall(r"^    (outlive .*)$", page(name), re.MULTILINE):
            if "|" not in line:
                words = shlex.split(line, comments=True)[1:]
                while words[0].startswith("--"):  # which server, with its value, before the verb
                    words = words[2:]
                yield name, words


def test_every_indented_command_has_a_verb_and_flags_that_are_there() -> None:
    wrong = []
    count = 0
    for name, words in _typed():
        count += 1
        length = 2 if words[0] in _GROUPS else 1
        verb, rest = words[:length], words[length:]
        own = rest[: rest.index("--")] if "--" in rest else rest
        flags = {word.partition("=")[0] for word in own if word.startswith("--")}
        verbs = {word for word, _ in complete_words([*verb[:-1], ""])}
        taken = {word for word, _ in complete_words([*verb, "--"])}
        if verb[-1] not in verbs or flags - taken:
            wrong.append(f"{name}: outlive {shlex.join(words)}")
    assert wrong == []
    assert count > 40
