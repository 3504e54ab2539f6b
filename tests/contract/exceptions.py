"""What a place does not do, and why: the only reasons for which a test of the contract may be left out there.

A test asks by `Place.skip_unless`; one of this suite sees that each entry is asked for.
"""

from collections.abc import Mapping
from typing import Literal

Ability = Literal["lent descriptor", "pid namespace"]

_NODE = "a descriptor of this machine cannot go to another one"
_NO_CAPABILITIES = "nobody makes a PID namespace in a container without capabilities: this way out is closed"
EXCEPTIONS: Mapping[tuple[str, Ability], str] = {
    ("remote", "lent descriptor"): _NODE,
    ("remote-docker", "lent descriptor"): _NODE,
    ("static", "lent descriptor"): _NODE,
    ("ray", "lent descriptor"): _NODE,
    ("docker", "pid namespace"): _NO_CAPABILITIES,
    ("remote-docker", "pid namespace"): _NO_CAPABILITIES,
}
