"""The promises of a project's services, at every door."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "V.order": (
        "A service starts once those that it comes after are ready: by port, text, HTTP or an end with 0."
    ),
    "V.reconcile": (
        "Up again starts what is missing, restarts what has changed, stops what is gone and leaves "
        "the rest alone."
    ),
    "V.restart": "A service is started again by its policy, after rests that double up to the longest one.",
    "V.once": (
        "Whatever is killed when, no service runs twice, none is missing, and a rest ends when it would have."
    ),
    "V.environment": (
        "A service gets the variables that were kept and those of its files, which are read at each "
        "start and kept nowhere."
    ),
    "V.inside": (
        "For a caller inside of what runs here the server asks no address, and nothing weaker than "
        "it is ended."
    ),
    "V.doors": (
        "JSON-RPC, REST and the Python client take and show the same of services, and refuse the same."
    ),
    "V.file": "outlive.processes.toml and Procfile are read; a mistake is named with its line and member.",
    "V.return": (
        "A server that is killed while services are wanted comes back by itself, but not after an "
        "ordered stop."
    ),
    "V.cli": "up, down, restart, logs and ps do at the command line what users of process managers expect.",
}
