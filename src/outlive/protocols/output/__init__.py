"""What an agent is shown of output that is too long: which lines, what is left out, and how it reads the
rest. Pure.
"""
