"""Counts tokens of o200k_base: for each line of JSON on stdin, a string, one line with its number of tokens.

It runs in the environment of `scripts/agent-peers.sh`, whose package carries the ranks: nothing is
downloaded. What looks like a special token is plain text here, which is what a host makes of a command's
output.
"""

import json
import sys

import bpe_openai  # type: ignore[import-not-found] # it is in an environment of its own

# The package refuses an input of more than 200,000 tokens, and a token has at least a character or three of
# them a character.
_MOST_CHARS = 60_000


def _count(text: str) -> int:
    total = 0
    while text:
        piece = text[:_MOST_CHARS]
        if len(text) > _MOST_CHARS:
            # A token never ends a line and goes on with a letter or digit of the next one; cut there if it
            # can be.
            piece = piece[: piece.rfind("\n") + 1] or piece
        total += len(_ENCODING.encode_ordinary(piece))
        text = text[len(piece) :]
    return total


_ENCODING = bpe_openai.get_encoding("o200k_base")

for line in sys.stdin:
    print(_count(json.loads(line)), flush=True)
