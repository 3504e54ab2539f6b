"""No door can forget to hide secrets: logs are opened where it is known what is hidden, and nobody else reads
their files.
"""

import ast

from tests.house.sources import ROOT, python_sources

# Where a log may be opened: what it hides is given to it there, or the reader writes places, counts lines, or
# is the very user.
_PACKAGE = ROOT / "src" / "outlive"
_OPENERS = {
    "cli/verbs/attach.py",  # counts lines, shows nothing
    "cli/logs/log_view.py",
    "engine/output_search.py",  # with what is hidden
    "engine/processes/output_redaction.py",  # notes places
    "engine/processes/process.py",
    "store/output_log.py",
    "store/search/index_maker.py",  # after redaction, and never what may have values
}
# Who may touch the bytes themselves; a door shows none before `Engine.read_raw`.
_RAW = {
    "engine/processes/process.py",
    "engine/processes/question_watch.py",  # whether the last line has ended, gives nothing else
    "engine/queries.py",
    "engine/terminals/execution.py",  # looks for marks, gives nothing else
    "frontends/jsonrpc/subscriptions.py",
    "frontends/rest/routes.py",
    "frontends/rest/output.py",
    "frontends/terminal/door.py",
    "store/log_mask.py",
    "store/output_log.py",
}


def _users(names: set[str]) -> set[str]:
    found = set()
    for source in python_sources("src/outlive"):
        for node in source.nodes:
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
            if called or (isinstance(node, ast.Attribute) and node.attr in names):
                found.add(source.path.relative_to(_PACKAGE).as_posix())
    return found


def test_logs_are_opened_where_it_is_known_what_is_hidden() -> None:
    assert _users({"OutputLog"}) <= _OPENERS


def test_bytes_themselves_are_for_those_who_may_see_them() -> None:
    assert _users({"raw_log", "pread_raw"}) <= _RAW
