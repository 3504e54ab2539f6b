"""Command lines that work, by verb: help pages and man pages end with them.

A test has the parser read each.
"""

from collections.abc import Mapping
from types import MappingProxyType

from outlive.cli.program import Examples, Verb

# By the words behind `outlive`; each line with what it is for.
EXAMPLES: Mapping[str, Examples] = MappingProxyType(
    {
        "run": (
            ("outlive run -- make -j8", "as `make -j8`, only that it goes on when this terminal is closed"),
            ("outlive run -d -- ./server --port 8080", "print its id and leave it running"),
            ("outlive run -c 'make 2>&1 | tee log'", "a shell line"),
            ("outlive run -d --wait-for :8080 -- ./server", "return as soon as it listens"),
            ("outlive run --timeout 10m --limit memory=2G -- ./tests", "with bounds"),
        ),
        "attach": (("outlive attach p7", "the keys ctrl-p ctrl-q leave it running again"),),
        "ps": (
            ("outlive ps", "what runs"),
            ("outlive ps -a --project", "what has run in this folder's project, too"),
        ),
        "logs": (
            ("outlive logs -f", "all services of this project, as it comes"),
            ("outlive logs -f p7", "from the beginning, and on until the end"),
            ("outlive logs --tail 20 p7", "the last lines"),
            ("outlive logs --grep error -C 2 p7", "matching lines, with two around each"),
            ("outlive logs --since 10m p7", "what was written in the last ten minutes"),
        ),
        "search": (
            ("outlive search 'connection refused'", "in what all processes have printed, the newest first"),
            ("outlive search -i --project error", "in this project's, letters in either case"),
        ),
        "rerun": (("outlive rerun p7", "beside it, if it still runs"),),
        "ui": (
            ("outlive ui", ""),
            ("outlive ui --scope read", "a page that only looks"),
            ("outlive ui --print", "the file, for a browser that is not found"),
        ),
        "inspect": (("outlive inspect p7", "folder, times, limits, cause of its end"),),
        "wait": (
            ("outlive wait p7", "until it has ended"),
            ("outlive wait --for text=ready --timeout 1m p7", "until it has printed this"),
            ("outlive wait --any p7 p8", "the first of several"),
        ),
        "send": (
            ("outlive send p7 yes", "a line of input"),
            ("outlive send --key ctrl-c p7", "a key, where it has a terminal"),
        ),
        "answer": (("outlive answer p7", "shows the question, and asks you for the answer"),),
        "pause": (("outlive pause p7", ""), ("outlive pause --group builds", "all of a group")),
        "resume": (("outlive resume p7", ""),),
        "kill": (("outlive kill p7", "nothing of it is left when this returns"),),
        "stop": (
            ("outlive stop p7", "its whole tree: TERM, and KILL after the grace period"),
            ("outlive stop --tag team=web --grace 5s", "everything with a tag"),
        ),
        "signal": (("outlive signal HUP p7", ""), ("outlive signal --tree USR1 p7", "its descendants, too")),
        "stats": (
            ("outlive stats", "again and again, until Ctrl-C"),
            ("outlive stats --no-stream p7", "once"),
        ),
        "events": (("outlive events --event ended", "a line whenever a process ends"),),
        "tag": (("outlive tag p7 team=web draft-", "sets one, removes another"),),
        "rename": (("outlive rename p7 web", "the name counts in its project"),),
        "rm": (("outlive rm p7", ""),),
        "prune": (
            ("outlive prune --dry-run", "what would go, and how much room that makes"),
            ("outlive prune --older-than 7d -y", ""),
        ),
        "df": (("outlive df", ""),),
        "approvals": (("outlive approvals", ""),),
        "approve": (("outlive approve 3f9a2c", "the digest that `outlive approvals` shows"),),
        "deny": (("outlive deny 7m2x4q --reason 'use the staging database'", ""),),
        "completion": (("outlive completion --install bash", ""),),
        "serve": (
            ("outlive serve", "on this machine alone"),
            ("outlive serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem", "for callers with tokens"),
        ),
        "backup": (
            ("outlive backup outlive.tar.gz", "whatever runs goes on"),
            (
                "outlive backup --replace --without-keys outlive.tar.gz",
                "again, and nothing in it lets a caller in",
            ),
        ),
        "restore": (
            ("outlive restore --dry-run outlive.tar.gz", "check an archive, and say what is in it"),
            ("outlive restore outlive.tar.gz", "into an empty state folder"),
        ),
        "doctor": (("outlive doctor", ""),),
        "mcp": (
            ("outlive mcp --mcp-tools lean", "what `outlive install` writes into a host's configuration"),
        ),
        "stop-server": (("outlive stop-server", "the next call of outlive starts one again"),),
        "keeper status": (("outlive keeper status", ""),),
        "keeper upgrade": (("outlive keeper upgrade", "after an upgrade of outlive"),),
        "keeper stop": (("outlive keeper stop --kill", "end everything that runs here"),),
        "keeper run": (("outlive keeper run", "what the unit of `outlive service install` runs"),),
        "config show": (("outlive config show --origin", "each value, and where it comes from"),),
        "policy check": (("outlive policy check -- git push", ""),),
        "policy always": (("outlive policy always", ""),),
        "policy forget": (
            ("outlive policy forget 5d0c1f93ab27", "the digest that `outlive policy always` shows"),
        ),
        "service install": (("outlive service install --dry-run", "show both units"),),
        "service uninstall": (("outlive service uninstall", ""),),
        "service status": (("outlive service status", ""),),
        "terminal ls": (("outlive terminal ls", ""),),
        "terminal new": (("outlive terminal new --name build", ""),),
        "terminal exec": (
            ("outlive terminal exec -t build 'cd src && make'", "the folder stays for the next one"),
        ),
        "terminal send": (("outlive terminal send build --key ctrl-c", ""),),
        "terminal read": (("outlive terminal read build", ""),),
        "terminal attach": (("outlive terminal attach build", ""),),
        "terminal close": (("outlive terminal close build", ""),),
        "token create": (("outlive token create --name ci --scope read --expires 7d", "it is shown once"),),
        "token list": (("outlive token list", ""),),
        "token revoke": (("outlive token revoke ci", ""),),
        "cp": (
            ("outlive cp data/ gpu1:/data", "what is there already is not sent again"),
            ("outlive cp gpu1:/out/model.bin .", ""),
            ("outlive cp p7:log.txt .", "from where p7 runs"),
        ),
        "audit verify": (("outlive audit verify", ""),),
        "audit show": (("outlive audit show", ""),),
        "audit begin": (("outlive audit begin", ""),),
    }
)


def examples_of(path: str, verb: Verb) -> Examples:
    """Return the examples of a verb by all its words (`outlive terminal ls`), or its own."""
    return EXAMPLES.get(path.partition(" ")[2], verb.examples)
