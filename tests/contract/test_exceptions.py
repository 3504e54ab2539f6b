"""The table of exceptions says nothing that no test asks for."""

import re
from pathlib import Path
from typing import get_args

from tests.contract.exceptions import EXCEPTIONS, Ability
from tests.contract.places import NAMES


def test_every_exception_is_asked_for_and_has_a_reason() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    asked = set(re.findall(r'(?:lacks|skip_unless)\("([a-z ]+)"\)', text))
    assert asked == set(get_args(Ability)) == {ability for _, ability in EXCEPTIONS}
    assert all(name in NAMES and len(reason) > 20 for (name, _), reason in EXCEPTIONS.items())
