"""The promises of the Python client."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "C.run.signals": (
        "TERM, INT, QUIT and HUP sent to `outlive run` or its group end its whole tree, as in a "
        "shell without job control."
    ),
    "C.run.key": (
        "`outlive run --key` runs a command once in a project, across crashes; again it prints that "
        "output and exits with that code."
    ),
    "C.names.echo": (
        "What stops, ends or forgets a process by a word says which one that was: name, end of its "
        "id, command."
    ),
    "C.guessed": (
        "What people guess from docker, pueue, tmux, pm2, systemctl and kubectl is done or answered "
        "with what does it; no mistyped word with what destroys."
    ),
    "C.search": "`search` finds a text in every output, and each line says what its process is called.",
    "C.rerun": (
        "`restart` and `rerun` run a command again in its folder and environment, with its name, "
        "labels and bounds; a secret is asked for or named, never missing in silence."
    ),
    "C.names": (
        "On the command line p7 is the current project's process of that number, before an id that "
        "ends so, and never another one's by chance."
    ),
    "C.run.left": "What a command has left running is seen in every list of what runs, with its number.",
    "C.owner.rules": (
        "A server that a client starts obeys the operator's last settings and serves the same doors; "
        "a project may only tighten them."
    ),
    "C.owner.yield": (
        "A server that a client has started yields to `outlive serve`; two of operators refuse each other."
    ),
    "C.owner.stopped": (
        "Only `outlive stop-server`, Ctrl-C of a person's `serve` (or TERM) and its unit are a stop on "
        "purpose: then services rest, and what was connected brings no server back but by a start. "
        "Every new call finds a server, whatever ended the last one."
    ),
    "C.owner.service": (
        "While a service owns the folder clients wait 10 s at most, then name its unit, and start no server."
    ),
    "C.umask": (
        "A command begins with the umask of the program that asks for it; every door takes another "
        "one, 022 means 022."
    ),
    "C.nice.floor": (
        "Without scope admin, or from inside, no caller gets a niceness below the server's own, at any door."
    ),
    "C.nice": (
        "A command begins with the niceness of the program that asks for it, as far as the keeper "
        "may give it."
    ),
    "C.follow": (
        "A follow by the Python client goes on across killed servers and a killed keeper, asyncio "
        "and blocking."
    ),
    "C.follow.once": (
        "It yields every byte once, and its cursor is always exactly behind what it has yielded."
    ),
    "C.follow.bounded": (
        "A consumer that rests makes the client stop reading: its memory is bounded, and nothing is dropped."
    ),
    "C.follow.cancel": (
        "Cancelling or leaving an iteration leaves the process alone; the same follow goes on with "
        "the next byte."
    ),
    "C.events": "The client's events go on across killed servers, and say where some may be missing.",
    "C.once": (
        "A start whose answer was lost is asked for again, and has started once; input is never "
        "written twice."
    ),
    "C.start": "The client starts the server of a state folder where none runs, and that server outlives it.",
    "S4.8": (
        "ProcessRegistry registers, finds, lists and gracefully terminates with the documented meanings; how "
        "it is made is documented."
    ),
}
