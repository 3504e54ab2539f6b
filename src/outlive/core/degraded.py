"""What may keep a state folder from being written, in the one word that every door says for it (decision 136).

It lies below everything else, for the keeper finds it out, the engine remembers it and the doors' documents describe it.
The words are slugs of errors, too: `errors` has their hints, `error_meanings` their sentences.
"""

from typing import Literal, get_args

Degraded = Literal["disk_full", "read_only", "folder_gone"]
DEGRADED: frozenset[str] = frozenset(get_args(Degraded))
