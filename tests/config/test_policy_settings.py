"""Settings of the policy: verdicts, patience, and what a project's file may make of them."""

import pytest

from outlive.config import ConfigFile, Settings, resolve
from outlive.config.resolution import is_tighter
from outlive.core.errors import ConfigInvalid

_USER = ConfigFile("user", "/etc/u.toml", 'deny = ["rm"]\nallow = ["ls", "cat"]\npolicy_opaque = "ask"\n')


def _with_project(text: str) -> Settings:
    files = [_USER, ConfigFile("project", "/p/.outlive.toml", text)]
    return resolve({}, {"HOME": "/nonexistent"}, working_folder="/", files=files).settings


@pytest.mark.parametrize(
    ("value", "than", "tighter"),
    [("deny", "ask", True), ("ask", "ask", True), ("allow", "ask", False), ("ask", "deny", False)],
)
def test_a_stricter_verdict_is_tighter(value: str, than: str, *, tighter: bool) -> None:
    assert is_tighter("stricter", value, than=than) is tighter


def test_a_project_adds_denials_takes_away_permissions_and_decides_more_strictly() -> None:
    settings = _with_project(
        'deny = ["rm", "sudo"]\nask = ["curl"]\nallow = ["ls"]\npolicy_opaque = "deny"\napproval_timeout '
        '= "1m"\n'
    )
    assert (settings.deny, settings.ask, settings.allow) == (("rm", "sudo"), ("curl",), ("ls",))
    assert (settings.policy_opaque, settings.approval_timeout_s) == ("deny", 60.0)


@pytest.mark.parametrize(
    "text",
    [
        'deny = ["sudo"]',
        'allow = ["ls", "sh"]',
        "allow = []",
        'policy_opaque = "allow"',
        'approval_timeout = "1h"',
    ],
)
def test_a_project_that_loosens_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="may only tighten"):
        _with_project(text + "\n")


@pytest.mark.parametrize("text", ["0", "31d", "1e12"])
def test_patience_has_bounds(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        resolve({"approval_timeout_s": text}, {"HOME": "/nonexistent"}, working_folder="/")
