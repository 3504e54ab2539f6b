"""Docker as a place where commands run (`--backend docker`): containers are made, found again and removed.

The commands inside them belong to the keeper. The daemon makes, inspects and removes containers, and carries
no output. `part` is what a server gets of it, and resolves commands, `containers` keeps the containers.
"""

from outlive.cli.program import Group, Verb

VERBS = {
    "Operators": (
        Group(
            "containers",
            "Look after the containers of commands.",
            (
                Verb(
                    "ls",
                    "List containers. Image, age, state, and the processes that live in them.",
                    "outlive.extensions.docker.container_verbs:ls",
                    (("outlive containers ls", ""),),
                ),
                Verb(
                    "rm",
                    (
                        "Remove containers. All that is in them but mounted folders goes too; the next "
                        "command makes one anew."
                    ),
                    "outlive.extensions.docker.container_verbs:rm",
                    (("outlive containers rm outlive-3f9a", "the next command makes one anew"),),
                ),
            ),
            is_local=True,
        ),
    )
}
