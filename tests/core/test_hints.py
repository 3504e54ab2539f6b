"""Each door's hints use words that exist at that door."""

import re

import pytest

from outlive.core.errors import SLUGS, InvalidRequest
from outlive.core.hints import HINTS, hint_for
from tests.cli.launching import run

# What only a JSON-RPC caller can follow: methods, members of a request, text frames.
_FOREIGN_AT_CLI = re.compile(
    r"\"[a-z]+\": |the method's|\bpass process_id|text frame|concurrent|terminal_\w+"
)


def test_every_hint_belongs_to_an_error() -> None:
    assert HINTS.keys() <= SLUGS.keys()


def test_a_hint_is_the_doors_own_and_a_hint_for_one_error_stays() -> None:
    usual = InvalidRequest("invalid_params", "No.")
    assert hint_for(usual, "cli") == HINTS["invalid_params"]["cli"]
    assert hint_for(usual, "mcp") != hint_for(usual, "rest")
    special = InvalidRequest("invalid_params", "No.", hint="Close the quotes.")
    assert {hint_for(special, door) for door in ("cli", "rest", "mcp")} == {"Close the quotes."}
    other = InvalidRequest("command_incomplete", "No.")
    assert hint_for(other, "cli") == other.hint


def test_hints_of_the_command_line_name_verbs_and_options_that_it_has() -> None:
    for slug, hints in HINTS.items():
        words = hints.get("cli", "")
        assert not _FOREIGN_AT_CLI.search(words), slug
        for verb, rest in re.findall(r"`outlive ([a-z]+)([^`]*)`", words):
            shown = run(verb, "--help")
            assert shown.returncode == 0, (slug, verb)
            for option in re.findall(r"(?<=\s)--?[a-z]+", rest):
                assert option in shown.stdout, (slug, option)


@pytest.mark.parametrize("slug", ["invalid_params", "process_ambiguous", "process_not_found", "stdin_closed"])
def test_the_command_line_never_shows_words_of_a_request(slug: str) -> None:
    assert not _FOREIGN_AT_CLI.search(hint_for(SLUGS[slug][0](slug, "No."), "cli"))
