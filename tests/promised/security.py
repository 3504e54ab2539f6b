"""The promises of access."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "S0.3.walls": "From `workspace` on no way out is open but those that docs/sandbox.md names, and common programs run.",
    "S0.3.profile": "`profile` starts the process in a sandbox profile, or refuses; the result lists what took effect.",
    "W.principal": "A caller is our own uid on this machine or a token; nothing else is let in.",
    "A.owner": "Nobody sees, reads or controls another principal's process, by whatever name it is called.",
    "A.peer": "Without a token only our own uid is let in: by the kernel's word, unforwarded, and from no web page.",
    "A.inside": "A process that we have started, or a descendant of it, is let in nowhere by its uid, nor by the keeper.",
    "A.reach_inside": "What lives in a process of ours acts, by no verb of any door, on a process with a weaker profile.",
    "A.grant": "A granted token lies in no file and no words, counts in its command only, and while that runs, for no more than its giver may.",
    "A.callbacks": "By the operator's setting each command has such a token; without it none has.",
    "A.keeper": "No command of any profile is served by the socket of a shim or of the guardian: only the lock's holder is.",
    "A.patience": "Lack of time is no refusal: a caller that cannot be told yet waits, and is asked to come again with 503.",
    "A.memory": "Memory, environment and descriptors of server and keeper are closed to other processes of their user.",
    "A.token": "A token counts until it is revoked or expires; what its holder has open ends within a second then.",
    "A.tls": "With a certificate the TCP ports speak TLS only, and ask callers for theirs where an authority is named.",
    "A.reach": "Beyond loopback the server does not start without TLS and something that a caller can show.",
    "A.raw": "Secrets are shown to the scope admin or a person at the command line, from outside only, never by MCP, each time after an entry in the audit log.",
    "A.audit.mac": "Entries of the audit log that its key did not seal are found, and so is a log that is gone.",
    "A.scope": "Every method, tool and route needs a scope; a caller with a narrower one is refused with scope_missing.",
    "P.rules": "deny, ask and allow are held against the words of every simple command, before every start, at every door.",
    "P.only": "With an allow list nothing that is not on it is started by us, whatever is tried.",
    "P.approval": "What is asked about starts once, after an administrator outside of our trees approved it, across crashes.",
    "P.exactly": "A yes starts exactly what was shown: it carries a digest of that, and what has waited gives its id to nothing else.",
    "S4.9.key": "With MCP_API_KEY set, every TCP caller sends it (Bearer, bare or X-API-Key), else 401.",
    "S4.10.hello": "A page of localhost without a token may initialize, ping and list tools at /mcp, and ask /health; no more.",
    "S4.10.allowed": "Pages of an origin that --allow-origin names act as the user; the start says what pages may do.",
    "S4.9.health": "GET /health answers without a key, saying only that the server lives.",
    "S4.10": "Origin must be localhost, compared as a parsed host: http://localhost.evil.com gets 403.",
}
