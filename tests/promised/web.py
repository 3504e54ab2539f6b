"""The promises of the page of outlive's own."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "U.shell": (
        "GET / gives a caller that prefers text/html the page, which holds no data, and every other "
        "caller the JSON it always had."
    ),
    "U.files": "Below /ui/ the page's own files are answered, and nothing else, whatever the path says.",
    "U.list": (
        "The page lists what its caller may see, live and by a filter in the address, and offers "
        "what the caller's scope allows."
    ),
    "U.deeds": (
        "The page sends a chosen signal, starts the same again, and gives a process another name and "
        "other tags."
    ),
    "U.tree": (
        "The page shows as a tree what started what: project, caller, session, process; and marks "
        "what was left behind."
    ),
    "U.usage": (
        "The page shows processor, memory and listening ports of the processes in sight, and asks "
        "for none that is out of sight."
    ),
    "U.compare": (
        "The page compares a run with an earlier one of the same command: duration, exit code, and "
        "the first line that differs, however long they are."
    ),
    "U.log": (
        "The page shows a log of any size at its end, its beginning and any place between, fetching "
        "what is in sight, and goes on after a kill."
    ),
    "U.log.tools": (
        "The page goes to a line, folds marked steps, shows times, finds a text, links chosen lines, "
        "and saves a log raw or as clean text."
    ),
    "U.log.hidden": (
        "A page that is hidden, or shows what has ended and changes no more, asks the server for no output."
    ),
    "U.search": (
        "The page searches all output its caller may read, shows matches as they are found, stops "
        "when told to, keeps the query in its address, and leads to the byte."
    ),
    "U.approvals": (
        "The page shows what waits for approval, as it would run, and approves exactly that or "
        "denies it with a sentence; for admins alone."
    ),
    "U.questions": (
        "The page shows what waits for input and sends an answer to the process alone; a password is "
        "shown nowhere."
    ),
    "U.questions.hidden": "A page that is hidden does not ask whether a question that it shows was answered.",
    "U.timeline": (
        "The page shows a day or an hour as one sentence, what failed first, and a bar for each "
        "process; times without a server are marked; day, hour and project are in the address."
    ),
    "U.machine": (
        "The page shows starts, failures and output over time and by project, as charts and tables, "
        "what lives takes, and what takes the disk."
    ),
    "U.audit": "The page shows what the audit log says of a process, to callers with the scope admin alone.",
    "U.groups": (
        "The page shows groups and projects with what waits for its turn, and pauses, resumes and "
        "stops all of one at the second click."
    ),
    "U.settings": (
        "The page shows the settings in effect and what a check finds to callers with the scope "
        "admin alone, and which other servers are reached."
    ),
    "U.accessible": (
        "No view has a finding that axe-core calls serious or critical, light or dark, wide or 375 "
        "px wide, where nothing is wider than the screen."
    ),
    "U.terminal": (
        "The page opens terminals, and goes on at the exact byte when the server was killed; a page "
        "of the scope read types nothing."
    ),
    "U.terminal.flood": (
        "In a flood the page shows the effect of Ctrl-C behind little output; what it did not draw "
        "it names, and links to in the log."
    ),
    "U.terminal.hold": (
        "Of several pages that show a terminal one types; others see it in its size, take over, and "
        "are handed back to, also after a kill."
    ),
    "U.terminal.drop": (
        "A file that is dropped on a terminal lies in its process's working folder, and its quoted "
        "path is typed without Enter."
    ),
    "U.playback": (
        "The page plays a terminal as it looked, faster if asked for, stands still, and goes to any "
        "time; the address keeps the time."
    ),
    "U.terminal.search": "The page finds a text in what a terminal has shown.",
    "U.terminal.hidden": (
        "A page that is hidden lets a terminal's connection go, and goes on at the exact byte when "
        "it is seen."
    ),
    "U.code": (
        "A code opens the page once, within 60 s, and gives it a token that is listed, can be "
        "revoked, and ends after 12 h."
    ),
    "U.code.who": (
        "Only the user of this machine gets a code: over the Unix socket, without a token, from "
        "outside of every command of ours."
    ),
    "U.code.form": (
        "A code counts in the form of a file alone: sent by no page, from inside no command, over no proxy."
    ),
    "U.code.file": (
        "A code lies in a 0600 file that is gone once it was used, or its minute is over, and in no "
        "program's words."
    ),
}
