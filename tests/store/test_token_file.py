"""The file of the tokens: written whole, under a lock, by any number of programs at once."""

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlive.core.errors import InvalidRequest, OutliveError, StoreCorrupt
from outlive.core.layout import Layout
from outlive.policy.access import Scope, find_token
from outlive.store.token_file import TokenFile

_NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(Layout(str(tmp_path)))


def test_a_new_token_is_found_by_its_secret_and_gone_when_it_is_revoked(
    file: TokenFile, tmp_path: Path
) -> None:
    assert file.read() == ()
    token, secret = file.create(None, Scope.READ, now=_NOW)
    assert (token.name, token.scope, len(secret)) == ("token-1", Scope.READ, 47)
    assert find_token(file.read(), secret, now=_NOW) == token
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600
    assert file.revoke("token-1") == token
    assert file.read() == ()


def test_names_are_free_once_and_say_so_when_they_are_not(file: TokenFile) -> None:
    file.create("token-2", Scope.RUN, now=_NOW)
    assert [file.create(None, Scope.RUN, now=_NOW)[0].name for _ in range(2)] == ["token-1", "token-3"]
    for name in ("token-2", "", " ", "a b", "../x", "x" * 65, "-a"):
        with pytest.raises(InvalidRequest):
            file.create(name, Scope.RUN, now=_NOW)
    with pytest.raises(OutliveError) as refused:
        file.revoke("nobody")
    assert refused.value.code == "token_not_found"


def test_programs_that_create_at_once_lose_nothing(file: TokenFile) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: file.create(None, Scope.RUN, now=_NOW), range(24)))
    assert {token.name for token in file.read()} == {token.name for token, _ in made}
    assert len({secret for _, secret in made}) == 24


def test_what_was_left_by_one_that_was_killed_is_in_nobodys_way(file: TokenFile, tmp_path: Path) -> None:
    (tmp_path / "tokens.json.new").write_text("half")
    file.create("a", Scope.RUN, now=_NOW)
    assert [token.name for token in file.read()] == ["a"]


def test_a_file_of_something_else_is_not_written_over(file: TokenFile, tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("mine")
    with pytest.raises(StoreCorrupt):
        file.create("a", Scope.RUN, now=_NOW)
    assert (tmp_path / "tokens.json").read_text() == "mine"
