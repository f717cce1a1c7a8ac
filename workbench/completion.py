"""TAB in `%mcp` and `%%agent` lines: subcommands, options and their values, names of connections, URIs of the catalog."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from . import magics
from .errors import UsageError
from .pattern import PATTERNS

if TYPE_CHECKING:
    from .content import Template
    from .sessions import Session

__all__ = ["complete", "words"]

_PATIENCE, _TEMPLATES = 0.5, 3  # seconds that a server has while somebody waits for TAB; templates that are asked for
MODELS = ("demo", "openai:", "anthropic:", "ollama:")


@context_matcher(identifier="workbench", priority=200)
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """An IPython matcher (version 2); it suppresses Python's own completions in our lines only."""
    line = context.text_until_cursor.rsplit("\n", 1)[-1].lstrip()
    if not line.startswith(("%mcp ", "%%agent ")):
        return {"completions": [], "suppress": False}
    last = line.rsplit(" ", 1)[-1]
    before = line[: len(line) - len(last)].split()
    offered = [*words(before), *_from_servers(before, last)]
    # A word with blanks is offered in quotes, whether or not the first quote has been typed.
    # One with a line break, which a server may suggest, would end the magic and go on as the cell's code.
    typeable = [word for word in offered if word.isprintable()]
    found = [word for word in typeable if word.startswith(last) or word.strip("'").startswith(last)]
    completions = [SimpleCompletion(text=word, type="param") for word in found]
    return {"completions": completions, "matched_fragment": last, "suppress": True}


def _from_servers(before: list[str], last: str) -> list[str]:
    """What servers suggest: templates with their first placeholder filled in, and values of a prompt's arguments."""
    session, until = magics.current().session, time.monotonic() + _PATIENCE
    if before[:2] in (["%mcp", "read"], ["%mcp", "attach"]):
        near = [t for t in session.offer.templates if t.variables and _starts(t.uri, last)]
        return [shlex.quote(uri) for t in near[:_TEMPLATES] for uri in _filled(session, t, last, until)]
    if before[:2] == ["%mcp", "prompt"] and len(before) > 2:
        prompt = next((p for p in session.offer.prompts if p.name == before[2].strip("'\"")), None)
        name, sign, value = last.partition("=")
        if prompt is None or not sign:
            return [f"{argument.name}=" for argument in prompt.arguments] if prompt else []
        given = dict(word.split("=", 1) for word in before[3:] if "=" in word)
        found = session.complete(prompt, name, value, given, seconds=_PATIENCE)
        return [shlex.quote(f"{name}={each}") for each in found.values]
    return []


def _starts(template: str, typed: str) -> bool:
    literal = template.split("{")[0]
    return literal.startswith(typed) or typed.startswith(literal)


def _filled(session: Session, template: Template, typed: str, until: float) -> list[str]:
    """The template with its first placeholder filled in, up to the next one; what is typed of it stays as it is."""
    literal, _, rest = template.uri.partition("{")
    operator = rest[:1] if rest[:1] in "+#./;?&" else ""
    after = rest.partition("}")[2].partition("{")[0]
    if operator or "," in rest.partition("}")[0]:
        return []  # more than one value, or a sign before it: the form of the catalog does that
    start = typed[len(literal) :]
    value = unquote(start)
    found = session.complete(template, template.variables[0], value, seconds=max(0.0, until - time.monotonic()))
    near = [each.removeprefix(value) for each in found.values if each.startswith(value)]
    return [f"{literal}{start}{quote(each, safe='')}{after}" for each in near]


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
