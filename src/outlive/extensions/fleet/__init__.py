"""Other outlive servers on which commands run: nodes that this one reaches or that dial in (`joined`), and
the servers that it is a node of. A process there has a folder here, with its output and end (decision 125).

`part` is what a server gets of it, `routes` where requests go, `backend` one node, `node_client` what is said
to it.
"""
