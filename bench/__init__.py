"""Side-by-side measurements of outlive against its peers and against the floor of the machine.

Run as `python -m bench`. Peers, ours and the floors take turns within one run, so that their ratios
mean something on a noisy machine. Nothing here decides whether the product works: no measurement fails.
"""
