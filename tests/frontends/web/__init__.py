"""Tests of the page's frontend, in this process."""
