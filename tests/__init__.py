"""The tests of outlive: real processes for process behaviour, pure values for pure rules."""
