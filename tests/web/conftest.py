"""Fixtures: one Chromium for the tests of this folder, a window of it and a server of each test's own."""

from tests.support.browsing import phone, running_chromium, window
from tests.support.fixtures import own_server
