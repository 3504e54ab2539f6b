"""docs/errors.md and docs/messages.md are what the code says."""

import pytest

from outlive.core.errors import SLUGS
from outlive.core.hints import MEANINGS
from outlive.frontends.jsonrpc.methods import methods
from tests.docs.pages import page
from tests.docs.references import PAGES


@pytest.mark.parametrize("path", sorted(PAGES))
def test_generated_pages_are_up_to_date(path: str) -> None:
    assert page(path) == PAGES[path](), "run `python -m tests.docs.references`"


def test_every_error_means_something_in_one_sentence() -> None:
    assert list(MEANINGS) == list(SLUGS)
    assert all(meaning.endswith(".") for meaning in MEANINGS.values())


def test_every_method_says_what_it_takes() -> None:
    assert all(f"### `{method}`" in page("docs/messages.md") for method in methods())
