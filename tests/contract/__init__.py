"""One body of tests for every place where commands run: here, in containers, on a node, in the node's
containers.
"""
