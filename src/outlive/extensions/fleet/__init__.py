"""Other outlive servers on which commands run: nodes that this one reaches or that dial in (`joined`), and
the servers that it is a node of. A process there has a folder here, with its output and end (decision 125).

`part` is what a server gets of it, `routes` where requests go, `backend` one node, `node_client` what is said
to it.
"""

from outlive.cli.program import Group, Verb

_VERBS = "outlive.extensions.fleet.node_verbs"
VERBS = {
    "Operators": (
        Group(
            "node",
            "Look after the machines that commands run on.",
            (
                Verb(
                    "ls", "List machines, and what is free there.", f"{_VERBS}:ls", (("outlive node ls", ""),)
                ),
                Verb(
                    "add",
                    "Run commands on another server from now on.",
                    f"{_VERBS}:add",
                    (
                        (
                            (
                                "outlive node add build https://build.example:8003 --token-file token "
                                "--label zone=eu"
                            ),
                            "",
                        ),
                    ),
                ),
                Verb(
                    "inspect",
                    "Show all that is known of one.",
                    f"{_VERBS}:inspect",
                    (("outlive node inspect build", ""),),
                ),
                Verb(
                    "drain",
                    "Place no more commands on one. What runs there goes on.",
                    f"{_VERBS}:drain",
                    (("outlive node drain build", "before its machine is shut down"),),
                ),
                Verb(
                    "resume",
                    "Place commands on a drained one again.",
                    f"{_VERBS}:resume",
                    (("outlive node resume build", ""),),
                ),
                Verb(
                    "adopt",
                    "Follow what other servers have started on one, as if this one had.",
                    f"{_VERBS}:adopt",
                    (("outlive node adopt gpu1 --ended", ""),),
                ),
                Verb("rm", "Forget one that was added.", f"{_VERBS}:rm", (("outlive node rm build", ""),)),
                Verb(
                    "invite",
                    "Make a code with which a machine joins by dialling in.",
                    f"{_VERBS}:invite",
                    (("outlive node invite gpu1 --label zone=eu", "shows the code once"),),
                ),
                Verb(
                    "join",
                    "Make this machine a node of a server that has invited it.",
                    f"{_VERBS}:join",
                    (("outlive node join wss://gateway.example:8003", "on gpu1; asks for the code"),),
                ),
                Verb(
                    "leave",
                    "Be no node of a server any more.",
                    f"{_VERBS}:leave",
                    (("outlive node leave gateway.example", ""),),
                ),
            ),
        ),
    )
}
