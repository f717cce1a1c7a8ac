"""TAB in `%mcp`, `%%agent`, `%%compare` and `%replay` lines: subcommands, options and their values, names of connections,
URIs of the catalog; and `@server:uri` in the question of a cell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from . import commands, magics, pattern, suggest
from .content import Completion
from .errors import UsageError

if TYPE_CHECKING:
    from .content import Prompt
    from .sessions import Session

__all__ = ["complete", "words"]

_PATIENCE, _TEMPLATES = 0.5, 3  # seconds that servers have while somebody waits for TAB; templates that are asked for
_CELLS = {"%%agent": magics.agent_options, "%%compare": magics.compare_options}
_LINES = {**_CELLS, "%replay": magics.replay_options}
_CELL = re.compile(rf"\s*(?:{'|'.join(_CELLS)})(?:\s|$)")
_MENTION = re.compile(r"(?<!\S)@\S*$")
MODELS = ("demo", "openai:", "anthropic:", "ollama:")


@context_matcher(identifier="workbench", priority=200)
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """An IPython matcher (version 2); it suppresses Python's own completions in our lines only."""
    line = context.text_until_cursor.rsplit("\n", 1)[-1].lstrip()
    if (mention := _MENTION.search(line)) and _CELL.match(context.full_text) and not line.startswith("%"):
        return _offered(mention[0], [word for word in _mentions() if word.startswith(mention[0])])
    if not line.startswith(("%mcp ", *(f"{magic} " for magic in _LINES))):
        return {"completions": [], "suppress": False}
    before, last = _cut(line)
    typed = last.lstrip("'\"")
    suggested = _from_servers(before, typed)
    # A word with blanks is offered in quotes, whether or not the first quote has been typed.
    found = [w for w in words(before, typed) if w.startswith(last) or w.strip("'").startswith(last)]
    found += map(shlex.quote, suggested or ())
    # One with a line break, which a server may list or suggest, would end the magic and go on as the cell's code.
    found = [word for word in found if word.isprintable()]
    if suggested is not None and last and not found:
        found = [last]  # of nothing IPython would make a list of all its magics
    return _offered(last, found)


def _offered(last: str, found: Iterable[str]) -> SimpleMatcherResult:
    completions = [SimpleCompletion(text=word, type="param") for word in dict.fromkeys(found)]
    return {"completions": completions, "matched_fragment": last, "suppress": True}


def _mentions() -> Iterable[str]:
    """What stands for a resource in a question; a URI with a blank cannot be written there."""
    offer = magics.current().session.offer
    return [word for r in offer.resources if (word := f"@{r.server}:{r.uri}").isprintable() and " " not in word]


def _cut(line: str) -> tuple[list[str], str]:
    """The words before the last one, without their quotes, and the last one as it is typed, perhaps behind an open quote."""
    start, quote = 0, ""
    for at, character in enumerate(line):
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif not quote and character == " ":
            start = at + 1
    with suppress(ValueError):  # a backslash at the end, say
        return shlex.split(line[:start]), line[start:]
    return line[:start].split(), line[start:]


def _from_servers(before: list[str], typed: str) -> list[str] | None:
    """What servers suggest: templates filled in up to the next placeholder, and values of a prompt's arguments; `None` where
    nobody has to be asked."""
    command = commands.COMMANDS.get(before[1]) if len(before) > 1 else None
    if command is None or before[0] != "%mcp" or _option(command, before[-1]) is not None:
        return None
    session = magics.current().session
    arguments = _typed(command, before)
    if before[1] in ("read", "attach") and not arguments:
        gaps = [(t, found) for t in session.offer.templates if (found := suggest.gap(t, typed)) is not None][
            :_TEMPLATES
        ]
        answers = _asked(session, [(t, found.name, found.value, found.given) for t, found in gaps])
        return [uri for (_, found), each in zip(gaps, answers, strict=True) for uri in suggest.expansions(found, each)]
    if before[1] == "prompt" and arguments:
        prompt = next((p for p in session.offer.prompts if p.name == arguments[0]), None)
        return _of_prompt(session, prompt, arguments[1:], typed) if prompt else []
    return None


def _typed(command: Any, before: list[str]) -> list[str]:
    """The words behind the subcommand that are neither options nor their values."""
    pairs = zip(before[2:], before[1:], strict=False)
    return [word for word, previous in pairs if not word.startswith("--") and _option(command, previous) is None]


def _of_prompt(session: Session, prompt: Prompt, arguments: list[str], typed: str) -> list[str]:
    given = dict(word.split("=", 1) for word in arguments if "=" in word)
    name, sign, value = typed.partition("=")
    if not sign:
        left = [argument.name for argument in prompt.arguments if argument.name not in given]
        return [f"{each}=" for each in left if each.startswith(name)]
    (found,) = _asked(session, [(prompt, name, value, given)])
    return [f"{name}={each}" for each in found.values if each.startswith(value)]


def _asked(session: Session, questions: list[tuple[Any, str, str, Mapping[str, str]]]) -> list[Completion]:
    """The answers, in order, that come within the time that somebody waits for TAB; the others are empty.

    Not by `Loop.run`: while that waits it may ask for what a person types.
    """
    jobs = [session.start_complete(*question, seconds=_PATIENCE) for question in questions]
    futures.wait([job.future for job in jobs], 2 * _PATIENCE)
    for job in jobs:
        if not job.future.done():  # the loop itself is busy
            job.cancel()
    came = (job.future.done() and job.future.exception() is None for job in jobs)
    return [job.future.result() if each else Completion() for job, each in zip(jobs, came, strict=True)]


def _option(command: Any, word: str) -> Any:
    """The option that this word is, where it takes a value."""
    options = (action for action in command.parser._actions if word in action.option_strings)
    return next((option for option in options if option.nargs != 0), None)


def words(before: list[str], typed: str = "") -> Iterable[str]:
    """All words that may follow those of `before`, the first of which is the magic, where so much of it is `typed`."""
    if before == ["%mcp"]:
        return commands.COMMANDS
    command = _LINES.get(before[0]) or commands.COMMANDS.get(before[1])
    if command is None or "--" in before:
        return []
    if "--config" in before:
        return _configured(before[before.index("--config") + 1 :])
    if (option := _option(command, before[-1])) is not None:
        return _values(option, typed)
    options = [name for action in command.parser._actions for name in action.option_strings]
    if before == ["%replay"]:
        return [*(shlex.quote(str(path)) for path in sorted(Path().glob("*.jsonl"))), *options]
    first = len(before) > 1 and not _typed(command, before)
    return [*(_arguments(before[1]) if first else []), *options]


def _configured(typed: list[str]) -> Iterable[str]:
    """A configuration file of the project or of the working folder; then the servers of it."""
    from . import config

    if not typed:
        here = (str(path) for path in sorted(Path().glob("*.json")))
        return dict.fromkeys(shlex.quote(path) for path in (*map(str, config.found()), *here))
    with suppress(UsageError):
        return [shlex.quote(name) for name in config.load(typed[0].strip("'")).entries if name not in typed]
    return []


def _values(option: Any, typed: str) -> Iterable[str]:
    if option.dest in ("pattern", "patterns"):
        return _patterns(typed, several=option.dest == "patterns")
    known = {"model": MODELS, "models": MODELS, "server": magics.current().session.connections}
    return option.choices or known.get(option.dest, ())


def _patterns(typed: str, several: bool) -> Iterable[str]:
    """The last pattern of a sum, or of the patterns to compare, behind those that are typed."""
    pieces = pattern.split(typed, ",") if several else [typed]
    last = pattern.split(pieces[-1], "+")[-1]
    names = list(pattern.PATTERNS)
    if last.startswith("attach("):
        names += [f"attach({resource.uri})" for resource in magics.current().session.offer.resources]
    return [typed.removesuffix(last) + name for name in names]


def _arguments(command: str) -> Iterable[str]:
    session = magics.current().session
    if command in ("disconnect", "reconnect", "logs"):
        return session.connections
    if command == "prompt":
        return [shlex.quote(prompt.name) for prompt in session.offer.prompts]
    if command in ("read", "attach", "policy"):
        return [shlex.quote(resource.uri) for resource in session.offer.resources]
    if command == "detach":
        return [shlex.quote(uri) for _, uri in session.attachments]
    return ["demo"] if command == "connect" else []
