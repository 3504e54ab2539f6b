"""Docker mode: containers are made, found again, closed to what must stay outside, and removed when nobody
uses them.
"""
