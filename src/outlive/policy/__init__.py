"""May this be done? Pure decisions: no I/O, no clock.

`grammar` reads a shell line, `commands` holds it against the operator's list.
"""
