"""What a model has read and written in one conversation: calls, answers, and their tokens.

Pure but for the counter.

What counts, and why:

* *schema*: name, description and input schema of each tool, as compact JSON: what a host hands to a model.
* *tokens*: the calls that the model writes (name and arguments, as compact JSON) and the answers that it
  reads.
* *turns-tokens*: a model reads the whole conversation again at each turn, so each call costs everything
  before it: the schema, and all earlier calls and answers.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One call that an agent makes."""

    tool: str
    arguments: Mapping[str, object]

    @property
    def text(self) -> str:
        """The call as the model writes it."""
        return _compact({"name": self.tool, "arguments": self.arguments})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back: the text of the answer, or the sentence that a host shows when its patience ended."""

    text: str
    is_error: bool = False
    is_given_up: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A call, its answer, and the tokens of both."""

    use: ToolUse
    reply: Reply
    call_tokens: int
    reply_tokens: int


@dataclass(slots=True)
class Conversation:
    """The exchanges of one conversation, in their order.

    Attributes:
        schema_tokens: What the tools' schemas cost.
        count: Counts the tokens of a text.
    """

    schema_tokens: int
    count: Callable[[str], int]
    exchanges: list[Exchange] = field(default_factory=list)

    def add(self, use: ToolUse, reply: Reply) -> Exchange:
        """Enter an exchange and return it."""
        exchange = Exchange(
            use=use,
            reply=reply,
            call_tokens=self.count(use.text),
            reply_tokens=self.count(reply.text),
        )
        self.exchanges.append(exchange)
        return exchange

    @property
    def tokens(self) -> int:
        """The tokens of all calls and answers, the schema not counted."""
        return sum(one.call_tokens + one.reply_tokens for one in self.exchanges)

    @property
    def turns_tokens(self) -> int:
        """The tokens that the model read, all turns together."""
        total, before = 0, self.schema_tokens
        for one in self.exchanges:
            total += before
            before += one.call_tokens + one.reply_tokens
        return total


def schema_text(tools: Sequence[Schema]) -> str:
    """Return what a host hands to the model of these tools."""
    return _compact(
        [
            {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "input_schema": tool["inputSchema"],
            }
            for tool in tools
        ]
    )


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
