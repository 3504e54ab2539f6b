"""The promises of access."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "S0.3.walls": (
        "From `workspace` on no way out is open but those that docs/sandbox.md names, and common "
        "programs run."
    ),
    "S0.3.profile": (
        "`profile` starts the process in a sandbox profile, or refuses; the result lists what took effect."
    ),
    "W.principal": "A caller is our own uid on this machine or a token; nothing else is let in.",
    "A.owner": "Nobody sees, reads or controls another principal's process, by whatever name it is called.",
    "A.peer": (
        "Without a token only our own uid is let in: by the kernel's word, unforwarded, and from no web page."
    ),
    "A.inside": (
        "A process that we have started, or a descendant of it, is let in nowhere by its uid, nor by "
        "the keeper, of whichever server of the user it is."
    ),
    "A.inside.own": (
        "A command that encloses the server itself, too, takes no caller its rights: a private server that "
        "a command starts, tests and CI under `outlive run`, programs of a server that came back."
    ),
    "A.bounded": (
        "A process with more filters of system calls than the server and its keeper, or in another user, "
        "mount, PID or network namespace, needs a token; what is bounded as the server is does not."
    ),
    "A.reach_inside": (
        "What lives in a process of ours acts, by no verb of any door, on a process with a weaker profile."
    ),
    "A.grant": (
        "A granted token lies in no file and no words, counts in its command only, and while that "
        "runs, for no more than its giver may."
    ),
    "A.callbacks": "By the operator's setting each command has such a token; without it none has.",
    "A.node": (
        "What dials in as a node is let in by a code, once and for ten minutes, or by its newest "
        "credential alone, which counts at no other door."
    ),
    "A.keeper": (
        "No command of any profile is served by the socket of a shim, of a container, or of the "
        "guardian: only the lock's holder is."
    ),
    "A.copy": (
        "A copy of the state folder takes an identity of its own: what lives is the original's, lost "
        "in the copy and untouched by it."
    ),
    "A.backup": (
        "A backup made while commands write has each known process with its log, and appears under "
        "its name whole or not at all."
    ),
    "A.restore": (
        "A restore gives back every byte of output, or leaves the folder as it was, or one that says "
        "it is incomplete; ids stay, what ran is lost."
    ),
    "A.disk": (
        "What takes the disk, and what retention will remove, is the same at every door, and of the "
        "caller's own processes only."
    ),
    "A.statistics": (
        "Starts, ends and failures in a span of time, and when no server ran, are the same at every "
        "door, of the caller's own processes only."
    ),
    "A.groups": (
        "A caller sees its groups and what waits in each, and moves what waits; the order is the "
        "same after a kill, at every door."
    ),
    "A.settings": (
        "The settings in effect, and where each comes from, are shown to callers with the scope "
        "admin at every door, no secret among them."
    ),
    "A.checks": (
        "What `outlive doctor` finds where the server runs is shown to callers with the scope admin "
        "at every door."
    ),
    "A.audit.read": (
        "The audit log is read by callers with the scope admin at every door, newest first, by "
        "process, time and page."
    ),
    "A.upgrade": (
        "A process runs through an upgrade in place, of keeper and server, and back: its output is "
        "whole, byte by byte, and so is its exit code."
    ),
    "A.moved": (
        "A state folder that is moved within its file system stays the same one, and its commands live on."
    ),
    "A.patience": (
        "Lack of time is no refusal: a caller that cannot be told yet waits, and is asked to come "
        "again with 503."
    ),
    "A.crowd": (
        "A thousand clients that connect at once are all answered: none is refused or dropped "
        "because many came."
    ),
    "A.tracebacks": (
        "No client has the server print a traceback: bad frames and streams cut in the middle end "
        "with a clean code, an upgrade during a stop with 503."
    ),
    "A.logs": "Whatever is sent to them, the logs of server and keeper stay small.",
    "A.lending": (
        "The keeper takes a descriptor that was lent only for an id whose start the server asks for; "
        "until then it stays with its lender."
    ),
    "A.memory": (
        "Memory, environment and descriptors of server and keeper are closed to other processes of "
        "their user."
    ),
    "A.token": (
        "A token counts until it is revoked or expires; what its holder has open ends within a second then."
    ),
    "A.tls": (
        "With a certificate the TCP ports speak TLS only, and ask callers for theirs where an "
        "authority is named."
    ),
    "A.reach": "Beyond loopback the server does not start without TLS and something that a caller can show.",
    "A.secrets": "Of the server's environment no command gets what an option, OpenTelemetry or Ray reads.",
    "A.raw": (
        "Secrets are shown to the scope admin or a person at the command line, from outside only, "
        "never by MCP, each time after an entry in the audit log."
    ),
    "A.redacted": (
        "What an answer shows as stars for secrets it counts: each once, however what is read is "
        "cut, from any cursor on."
    ),
    "A.audit.mac": (
        "Entries of the audit log that its key did not seal are found, and so is a log that is gone."
    ),
    "A.terminal": (
        "No text of a server, a node, a file, the environment or an argument is obeyed by the terminal "
        "that a verb prints it to, or passes there for a line of outlive's; a program's own output is "
        "shown as it is, where it was asked for."
    ),
    "A.audit.refused": "What is refused or fails is in the audit log before it is answered.",
    "A.audit.begin": (
        "A broken audit log is set aside, kept, and followed by one whose first entry says so; a "
        "whole one is left alone."
    ),
    "A.scope": (
        "Every method, tool and route needs a scope; a caller with a narrower one is refused with "
        "scope_missing."
    ),
    "P.rules": (
        "deny, ask and allow are held against the words of every simple command, before every start, "
        "at every door."
    ),
    "P.only": "With an allow list nothing that is not on it is started by us, whatever is tried.",
    "P.approval": (
        "What is asked about starts once, after an administrator outside of our trees approved it, "
        "across crashes."
    ),
    "P.exactly": (
        "A yes starts exactly what was shown: it carries a digest of that, and what has waited gives "
        "its id to nothing else."
    ),
    "P.always": (
        "What is approved for always runs unasked only while everything that its line says, and the files "
        "that it names, are what they were."
    ),
    "S4.9.key": "With MCP_API_KEY set, every TCP caller sends it (Bearer, bare or X-API-Key), else 401.",
    "S4.10.hello": (
        "A page of localhost without a token may initialize, ping and list tools at /mcp, and ask "
        "/health; no more."
    ),
    "S4.10.allowed": (
        "Pages of an origin that --allow-origin names act as the user; the start says what pages may do."
    ),
    "S4.9.health": "GET /health answers without a key, saying only that the server lives.",
    "S4.10": "Origin must be localhost, compared as a parsed host: http://localhost.evil.com gets 403.",
}
