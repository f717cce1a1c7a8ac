"""TAB in `%mcp` and `%%agent` lines: subcommands, options, names of connections, URIs of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from . import magics

__all__ = ["complete", "words"]


@context_matcher(identifier="workbench", priority=200)
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """An IPython matcher (version 2); it suppresses Python's own completions in our lines only."""
    line = context.text_until_cursor.rsplit("\n", 1)[-1].lstrip()
    if not line.startswith(("%mcp ", "%%agent ")):
        return {"completions": [], "suppress": False}
    last = line.rsplit(" ", 1)[-1]
    found = [SimpleCompletion(text=word, type="param") for word in words(line) if word.startswith(last)]
    return {"completions": found, "matched_fragment": last, "suppress": True}


def words(line: str) -> Iterable[str]:
    """All words that may stand at the end of `line`, whatever has been typed of the last one."""
    before = line.split(" ")[:-1]
    session = magics.current().session
    if before[0] == "%%agent":
        return {"--model": ["demo", "openai:", "anthropic:", "ollama:"], "--approve": ["ask", "all", "none"]}.get(
            before[-1], _options(magics.agent_options)
        )
    if len(before) == 1:
        return magics.COMMANDS
    command = before[1]
    options = _options(magics.COMMANDS[command]) if command in magics.COMMANDS else []
    if before[-1] == "--server" or command in ("disconnect", "reconnect", "logs"):
        return [*session.connections, *options]
    if command in ("read", "attach"):
        return [*(r.uri for r in session.offer.resources), *options]
    if command == "detach":
        return [*(uri for _, uri in session.attachments), *options]
    return ["demo", *options] if command == "connect" else options


def _options(command: Any) -> list[str]:
    return [option for action in command.parser._actions for option in action.option_strings]
