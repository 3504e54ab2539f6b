"""`outlive logs`: which log, from where, what of it, and how it is printed."""
