"""What other programs really do, where docs/comparison.md says so."""
