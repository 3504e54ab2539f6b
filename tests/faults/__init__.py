"""Faults on purpose: kills at chosen instructions, kills at random, a thousand processes at once."""
