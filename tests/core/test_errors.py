"""Errors: every slug has a family and a hint, and an error survives its way between processes."""

import pytest

from outlive.core.errors import SLUGS, OutliveError, error_from_slug


@pytest.mark.parametrize("slug", SLUGS)
def test_every_slug_has_a_family_and_a_hint_that_is_a_sentence(slug: str) -> None:
    family, hint = SLUGS[slug]
    assert issubclass(family, OutliveError)
    assert hint[0].strip()
    assert hint.endswith((".", "}."))


@pytest.mark.parametrize("slug", SLUGS)
def test_an_error_is_rebuilt_from_what_another_process_reported(slug: str) -> None:
    error = error_from_slug(slug, "It did not work.", details={"n": 1})
    assert type(error) is SLUGS[slug][0]
    assert (error.code, error.message, error.hint) == (slug, "It did not work.", SLUGS[slug][1])
    assert error.details == {"n": 1}
    assert str(error) == "It did not work."


def test_a_slug_of_a_newer_keeper_is_an_internal_error_with_its_message() -> None:
    error = error_from_slug("invented_tomorrow", "Something new.", hint="Upgrade.")
    assert (error.code, error.message, error.hint) == ("internal_error", "Something new.", "Upgrade.")


def test_a_hint_of_the_place_wins_over_the_usual_one() -> None:
    assert OutliveError("not_found", "No.", hint="Look there.").hint == "Look there."


def test_details_cannot_be_changed() -> None:
    error = OutliveError("not_found", "No.", details={"a": 1})
    with pytest.raises(TypeError):
        error.details["a"] = 2  # type: ignore[index] # that is what must fail


def test_an_unknown_slug_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="SLUGS"):
        OutliveError("no_such_slug", "Oops.")
