"""Each door's hints use words that exist at that door."""

import functools
import re
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.core.errors import SLUGS, InvalidRequest, error_from_slug
from outlive.core.hints import HINTS, Door, hint_for, worded
from outlive.frontends.rest.service import RestService
from tests.support.door_words import FOREIGN
from tests.support.server import run_outlive

_DOORS: tuple[Door, ...] = ("cli", "rest", "mcp")


def test_every_hint_belongs_to_an_error() -> None:
    assert HINTS.keys() <= SLUGS.keys()


def test_a_hint_is_the_doors_own_and_a_hint_for_one_error_stays() -> None:
    usual = InvalidRequest("invalid_params", "No.")
    assert hint_for(usual, "cli") == HINTS["invalid_params"]["cli"]
    assert hint_for(usual, "mcp") != hint_for(usual, "rest")
    special = InvalidRequest("invalid_params", "No.", hint="Close the quotes.")
    assert {hint_for(special, door) for door in _DOORS} == {"Close the quotes."}
    other = InvalidRequest("command_incomplete", "No.")
    assert hint_for(other, "cli") == other.hint
    assert worded("unknown_path", "/docs lists every path.", "rest") == "/docs lists every path."


@pytest.mark.parametrize("door", _DOORS)
@pytest.mark.parametrize("slug", sorted(SLUGS))
def test_no_door_shows_words_of_another_one(slug: str, door: Door) -> None:
    hint = hint_for(error_from_slug(slug, "No."), door)
    assert hint.endswith((".", ")"))
    assert not re.search(FOREIGN[door], hint), hint


@pytest.mark.parametrize("door", _DOORS)
@pytest.mark.parametrize(
    "slug",
    ["timeout", "start_unanswered", "server_lost", "keeper_restarted", "node_unavailable", "extension_lost"],
)
def test_what_may_run_or_have_been_done_is_never_to_be_tried_again(slug: str, door: Door) -> None:
    assert "try again" not in hint_for(error_from_slug(slug, "No."), door).lower()


def test_hints_of_the_command_line_name_verbs_and_options_that_it_has(tmp_path: Path) -> None:
    # Many hints name the same verb.
    help_of = functools.cache(lambda words: run_outlive(*words.split(), "--help", state_dir=tmp_path))
    for slug, hints in HINTS.items():
        for words, rest in re.findall(r"`outlive ((?:terminal )?[a-z]+)([^`]*)`", hints.get("cli", "")):
            shown = help_of(words)
            assert shown.returncode == 0, (slug, words)
            for option in re.findall(r"(?<=\s)--?[a-z]+", rest):
                assert option in shown.stdout, (slug, option)


def test_hints_of_rest_name_paths_that_it_has() -> None:
    paths = {
        (method, re.sub(r"\{\w+\}", "ID", path))
        for method, path in RestService(None, Settings()).routes()  # type: ignore[arg-type] # asked for its paths only
    }
    for slug, hints in HINTS.items():
        for method, path in re.findall(r"\b(GET|POST|DELETE) (/[\w/]+)", hints.get("rest", "")):
            assert (method, path) in paths, (slug, path)
