"""TAB in `%mcp` and `%%agent` lines: subcommands, options and their values, names of connections, URIs of the catalog."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from . import magics
from .errors import UsageError
from .pattern import PATTERNS

__all__ = ["complete", "words"]

MODELS = ("demo", "openai:", "anthropic:", "ollama:")


@context_matcher(identifier="workbench", priority=200)
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """An IPython matcher (version 2); it suppresses Python's own completions in our lines only."""
    line = context.text_until_cursor.rsplit("\n", 1)[-1].lstrip()
    if not line.startswith(("%mcp ", "%%agent ")):
        return {"completions": [], "suppress": False}
    last = line.rsplit(" ", 1)[-1]
    offered = words(line[: len(line) - len(last)].split())
    # A word with blanks is offered in quotes, whether or not the first quote has been typed.
    found = [word for word in offered if word.startswith(last) or word.strip("'").startswith(last)]
    completions = [SimpleCompletion(text=word, type="param") for word in found]
    return {"completions": completions, "matched_fragment": last, "suppress": True}


def words(before: list[str]) -> Iterable[str]:
    """All words that may follow those of `before`, the first of which is the magic."""
    if before == ["%mcp"]:
        return magics.COMMANDS
    command = magics.agent_options if before[0] == "%%agent" else magics.COMMANDS.get(before[1])
    if command is None or "--" in before:
        return []
    if "--config" in before:
        return _configured(before[before.index("--config") + 1 :])
    options = {name: action for action in command.parser._actions for name in action.option_strings}
    if (option := options.get(before[-1])) is not None and option.nargs != 0:
        return _values(option)
    return [*_arguments(before[1] if len(before) > 1 else ""), *options]


def _configured(typed: list[str]) -> Iterable[str]:
    """A configuration file of the project or of the working folder; then the servers of it."""
    from . import config

    if not typed:
        here = (str(path) for path in sorted(Path().glob("*.json")))
        return dict.fromkeys(shlex.quote(path) for path in (*map(str, config.found()), *here))
    with suppress(UsageError):
        return [shlex.quote(name) for name in config.load(typed[0].strip("'")).entries if name not in typed]
    return []


def _values(option: Any) -> Iterable[str]:
    known = {"model": MODELS, "pattern": PATTERNS, "server": magics.current().session.connections}
    return option.choices or known.get(option.dest, ())


def _arguments(command: str) -> Iterable[str]:
    session = magics.current().session
    if command in ("disconnect", "reconnect", "logs"):
        return session.connections
    if command == "prompt":
        return [shlex.quote(prompt.name) for prompt in session.offer.prompts]
    if command in ("read", "attach"):
        return [shlex.quote(resource.uri) for resource in session.offer.resources]
    if command == "detach":
        return [shlex.quote(uri) for _, uri in session.attachments]
    return ["demo"] if command == "connect" else []
