"""What a start repeats of another one, and what it does not."""

from typing import Any

import pytest

from outlive.core.spec import REPEATED, Spec
from outlive.operations.repetition import REPEATS, RepeatedProcess, Repetition, repetition_of

_KNOWN = RepeatedProcess(
    process_id="p1",
    command="web",
    shell=None,
    redacted=0,
    timeout_s=None,
    grace_s=10.0,
    profile="open",
    tags={"service": "web"},
    group=None,
    project=None,
    name="web",
    location={"backend": "far"},
)


def _repeated(meta: dict[str, Any], secrets: tuple[str, ...] = ()) -> Repetition:
    spec = Spec(program="/bin/web", argv=("web",), env={}, cwd="/", meta=meta, secrets=secrets)
    return repetition_of(spec, _KNOWN, script=None, script_path="", package="/package")


@pytest.mark.parametrize(
    ("meta", "wanted"),
    [
        ({}, {"name": "web", "tags": {"service": "web", REPEATS: "p1"}, "backend": "far"}),
        ({"door": "services"}, {"name": None, "tags": {REPEATS: "p1"}, "backend": "far"}),
        ({REPEATED: {"needs": {"cpu": 1}}}, {"name": "web", "needs": {"cpu": 1}, "backend": "any"}),
    ],
    ids=["a process", "a service's", "one that had needs"],
)
def test_what_is_run_beside_a_service_is_none_and_what_has_needs_is_placed_anew(
    meta: dict[str, Any], wanted: dict[str, object]
) -> None:
    options = _repeated(meta).options
    assert {name: options.get(name) for name in wanted} == wanted


def test_the_token_of_a_grant_is_not_asked_for_and_a_secret_of_that_name_is() -> None:
    secrets = ("OUTLIVE_TOKEN", "A")
    assert _repeated({"grant": "g"}, secrets).secrets == ("A",)
    assert _repeated({}, secrets).secrets == secrets
