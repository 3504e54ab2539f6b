"""Another outlive server as a place of execution: its processes have folders here, with their output and ends
(decision 125).
"""
