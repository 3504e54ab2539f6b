"""Tests of copying files: words, walls, and the two ends of a copy on real disks and servers."""
