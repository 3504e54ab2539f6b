"""What the benchmark of agents counts."""

import pytest

from bench.agents.conversation import Conversation, Reply, ToolUse, schema_text
from bench.agents.tokens import TokenCounter


# Known from the reference implementation: `tiktoken.get_encoding("o200k_base")`.
@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("<|endoftext|> hi", 8)],
)
def test_tokens_are_those_of_o200k(counter: TokenCounter, text: str, tokens: int) -> None:
    assert counter.count(text) == tokens


def test_a_long_text_costs_what_its_lines_cost(counter: TokenCounter) -> None:
    line = "step 17 of 90: compiled src/parser.c\n"
    assert counter.count(line * 5000) == 5000 * counter.count(line)


def test_a_model_reads_everything_again_at_each_turn() -> None:
    conversation = Conversation(schema_tokens=100, count=len)
    use = ToolUse(tool="run", arguments={})
    size = len(use.text)
    conversation.add(use, Reply(text="x" * 10))
    assert conversation.turns_tokens == 100
    conversation.add(use, Reply(text="x" * 7))
    assert conversation.turns_tokens == 100 + (100 + size + 10)
    assert conversation.tokens == 2 * size + 17


def test_a_schema_is_what_a_host_hands_to_a_model() -> None:
    tool = {
        "name": "run",
        "title": "Run",
        "description": "Runs.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": False},
    }
    assert schema_text([tool]) == '[{"name":"run","description":"Runs.","input_schema":{"type":"object"}}]'
