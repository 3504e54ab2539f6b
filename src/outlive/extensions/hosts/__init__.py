"""`outlive install`: the MCP hosts that it knows, and how an entry is put into the text of their files."""

from outlive.cli.program import Verb

VERBS = {
    "Agents and approvals": (
        Verb(
            "install",
            (
                "Have an AI agent's program (MCP host) use outlive. Writes its configuration, keeping "
                "everything else in it."
            ),
            "outlive.extensions.hosts.install:install",
            (
                ("outlive install claude-code", "its own shell tools stay; outlive's are beside them"),
                ("outlive install --all --dry-run", "what would be written, for each host on this machine"),
            ),
            is_local=True,
        ),
        Verb(
            "uninstall",
            "Take outlive out of an MCP host again. Everything else in its configuration stays.",
            "outlive.extensions.hosts.install:uninstall",
            (("outlive uninstall claude-code", ""),),
            is_local=True,
        ),
    )
}
