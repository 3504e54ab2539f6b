"""Every block of code in the pages is executed or checked by a test, or says why it is not."""

import re
from collections import Counter

import pytest

from tests.docs.pages import ROOT, page

_PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
)
_BLOCK = re.compile(r"^```(\w*).*?^```$", re.MULTILINE | re.DOTALL)

# Page and language, to the module that takes the page's blocks of that language and executes or checks them.
_TAKEN_BY = {
    ("README.md", "console"): "tests/docs/test_readme.py",
    ("docs/access.md", ""): "tests/docs/test_examples_of_pages.py",
    ("docs/access.md", "python"): "tests/docs/test_examples_of_pages.py",
    ("docs/bridge.md", "python"): "tests/bridge/test_page.py",
    ("docs/client.md", "python"): "tests/docs/test_client_page.py",
    ("docs/contributing/README.md", "diff"): "tests/docs/test_contributing.py",
    ("docs/contributing/README.md", "python"): "tests/docs/test_contributing.py",
    ("docs/contributing/README.md", "sh"): "tests/docs/test_contributing.py",
    ("docs/jsonrpc.md", "json"): "tests/docs/test_jsonrpc_page.py",
    ("docs/jsonrpc.md", "python"): "tests/docs/test_jsonrpc_page.py",
    ("docs/keeper.md", "console"): "tests/docs/test_keeper_page.py",
    ("docs/mcp.md", "transcript"): "tests/docs/test_mcp_page.py",
    ("docs/policy.md", "console"): "tests/docs/test_examples_of_pages.py",
    ("docs/policy.md", "toml"): "tests/docs/test_examples_of_pages.py",
    ("docs/redaction.md", "toml"): "tests/docs/test_examples_of_pages.py",
    ("docs/rest.md", "console"): "tests/docs/test_rest_page.py",
    ("docs/rest.md", "python"): "tests/docs/test_rest_page.py",
    ("docs/sandbox.md", "console"): "tests/docs/test_examples_of_pages.py",
    ("docs/services.md", "console"): "tests/docs/test_services_page.py",
    ("docs/services.md", "python"): "tests/docs/test_services_page.py",
    ("docs/services.md", "toml"): "tests/docs/test_services_page.py",
    ("docs/terminals.md", "console"): "tests/docs/test_examples_of_pages.py",
    ("docs/ws-terminal.md", "html"): "tests/xterm/test_browser.py",
    ("docs/ws-terminal.md", "python"): "tests/docs/test_ws_terminal_page.py",
}
# Those that no test takes as they are: how many, and why.
_EXEMPT = {
    ("docs/architecture.md", ""): (1, "A drawing; tests/docs/test_architecture.py looks for what it names."),
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


def test_every_block_is_taken_by_a_test_or_says_why_not() -> None:
    found = set(_counts())
    assert found - set(_TAKEN_BY) - set(_EXEMPT) == set(), "add a test, or a reason"
    assert (set(_TAKEN_BY) | set(_EXEMPT)) - found == set(), "the page has no such block any more"
    assert set(_TAKEN_BY) & set(_EXEMPT) == set()


@pytest.mark.parametrize(("name", "language"), sorted(_TAKEN_BY))
def test_the_module_that_takes_blocks_reads_that_page_and_that_language(name: str, language: str) -> None:
    text = (ROOT / _TAKEN_BY[name, language]).read_text(encoding="utf-8")
    assert name in text or (name == "docs/jsonrpc.md" and "tables import PAGE" in text) or "MCP_PAGE" in text
    taken = rf'"{language}"\)|\(diff\|python\|sh\)|```{language}\b|_block\('
    if language == "console":
        taken += r"|commands\("
    assert re.search(taken, text), f"it takes no {language}"


def test_a_block_without_a_test_is_counted_and_has_a_reason() -> None:
    counts = _counts()
    for place, (count, reason) in _EXEMPT.items():
        assert counts[place] == count, place
        assert reason.endswith("."), place
        assert len(reason.split()) > 4, place
