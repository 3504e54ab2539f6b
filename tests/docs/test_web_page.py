"""docs/web.md says what the server really answers to `outlive ui`."""

import json

import pytest

from tests.docs.pages import blocks, page
from tests.support.server import OutliveServer, run_outlive

_PAGE = page("docs/web.md")


@pytest.mark.promise("U.code.who")
def test_the_answer_is_the_one_that_is_shown(server: OutliveServer) -> None:
    (shown,) = [json.loads(text) for text in blocks(_PAGE, "json")]
    answer = json.loads(run_outlive("ui", "--json", state_dir=server.state_dir).stdout)
    assert list(answer) == list(shown)
    assert [answer[name] for name in ("scope", "expires_s")] == [
        shown[name] for name in ("scope", "expires_s")
    ]
    assert answer["file"].startswith(f"{server.state_dir}/ui/")
    assert "/ui/" in shown["file"]
    # The page shows the port that a server has which nobody has told another one.
    own = f":{server.ready['ports']['rest']}/"
    assert answer["address"].replace(own, ":8181/") == shown["address"]
