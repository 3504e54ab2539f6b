"""Nodes that dial in: where a gateway takes their connections (`door`), and where a node dials its gateways
(`gateways`, `gateway`).
"""
