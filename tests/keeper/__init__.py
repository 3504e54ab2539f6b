"""The keeper alone, on real processes: what it starts, moves, ends, records and hands over, without a
server.
"""
