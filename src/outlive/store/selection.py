"""Which index finds the processes of a filter: `select_processes`, pure. It makes the SQL, `registry` runs it.

Each query names the index it walks, newest id first, and stops at the limit: SQLite without statistics (it never gets any
here) would choose by counting columns. So a question whose answer is empty is answered by an empty range of an index.
"""

import json
from collections.abc import Sequence
from itertools import product

from outlive.core.lifecycle import NOT_ENDED, State
from outlive.store.rows import COLUMNS, ProcessFilter

_Query = tuple[str, list[object]]
_Walk = tuple[str, str, list[object]]

_COLUMNS = ", ".join(f"processes.{column}" for column in COLUMNS)


def select_processes(wanted: ProcessFilter, *, limit: int, left_out: Sequence[str]) -> _Query:
    """Return a query for the columns of at most `limit` processes, newest first, and its parameters."""
    condition, values = wanted.where()
    if left_out:
        condition += " AND process_id NOT IN (SELECT value FROM json_each(?))"
        values = [*values, json.dumps(left_out)]
    pieces: list[str] = []
    parameters: list[object] = []
    for source, key, key_values in _walks(wanted):
        walked = "tagged" if "tagged" in source else "processes"
        pieces.append(
            f"SELECT * FROM (SELECT {_COLUMNS} FROM {source} WHERE {key}{condition}"  # noqa: S608 - our own words
            f" ORDER BY {walked}.process_id DESC LIMIT ?)"
        )
        parameters += [*key_values, *values, limit]
    query = " UNION ALL ".join(pieces)
    if len(pieces) > 1:
        query += " ORDER BY process_id DESC LIMIT ?"
        parameters.append(limit)
    return query, parameters


def _walks(wanted: ProcessFilter) -> list[_Walk]:
    """Return the ranges of indexes to walk: a source, the condition that bounds it, its parameters.

    The rarest comes first: what still runs is little, whatever the history is.
    """
    states = _states(wanted)
    kinds = (False, True) if wanted.detached is None else (wanted.detached,)
    if wanted.principal is None:
        return [("processes", "", [])]  # asked by ourselves only: by a connection or a command's id
    if wanted.command_id is not None:
        return [("processes INDEXED BY processes_by_command_id", "", [])]
    if states is not None and states <= NOT_ENDED:
        left = _left_over(wanted.principal) if wanted.active else []
        return [*_by_state(wanted.principal, states, kinds), *left]
    if wanted.pid is not None:
        return [("processes INDEXED BY processes_by_pid", "", [])]
    if wanted.tags:
        tag, content = next(iter(wanted.tags.items()))
        # CROSS JOIN: SQLite keeps this order (sqlite.org/optoverview.html, section 8.2).
        source = "process_tags AS tagged CROSS JOIN processes USING (process_id)"
        key = "owner = ? AND tag = ? AND content = ? AND "
        return [(source, key, [wanted.principal, tag, content])]
    if wanted.group is not None:
        return [("processes INDEXED BY processes_by_group", "", [])]
    if wanted.connection_id is not None:
        return [("processes INDEXED BY processes_by_connection", "", [])]
    if states is not None:
        return _by_state(wanted.principal, states, kinds)
    source, key = "processes INDEXED BY processes_by_principal", "principal = ? AND is_detached = ? AND "
    return [(source, key, [wanted.principal, is_detached]) for is_detached in kinds]


def _by_state(principal: str, states: frozenset[State], kinds: tuple[bool, ...]) -> list[_Walk]:
    if not states:
        return [("processes", "0 AND ", [])]
    source = "processes INDEXED BY processes_by_state"
    key = "principal = ? AND is_detached = ? AND state = ? AND "
    walks = product(kinds, sorted(states))
    return [(source, key, [principal, is_detached, state.value]) for is_detached, state in walks]


def _left_over(principal: str) -> list[_Walk]:
    """Return the walk over what has ended and left others running: active, too."""
    key = "principal = ? AND descendants > 0 AND state NOT IN (SELECT value FROM json_each(?)) AND "
    live = json.dumps([state.value for state in sorted(NOT_ENDED)])
    return [("processes INDEXED BY processes_left", key, [principal, live])]


def _states(wanted: ProcessFilter) -> frozenset[State] | None:
    """Return the states that fit; None where all do."""
    if wanted.active is None:
        return wanted.states
    fitting = frozenset(NOT_ENDED) if wanted.active else frozenset(State) - frozenset(NOT_ENDED)
    return fitting if wanted.states is None else fitting & wanted.states
