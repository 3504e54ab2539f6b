"""Decisions about what may be done. Pure: no I/O, no clock.

`grammar` reads a shell line, `commands` compares it with the operator's list, `judgement` applies rules,
`access` knows scopes.
"""
