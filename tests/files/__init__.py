"""Tests of files of this machine: walks, walls and documents; and trees that copies are made of."""
