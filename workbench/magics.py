"""`%mcp` and `%%agent`: parse a line, call one method of the session, show one thing.

Every option is an `@argument`; help and TAB completion come from them, so no new syntax is added here. Magics raise when
they fail, so that batch runs fail too, and they take no `{variables}`: braces belong to resource templates.
"""

from __future__ import annotations

import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from .commands import COMMANDS
from .compare import COMPARED
from .errors import Stopped, UsageError
from .forms import Answer
from .loop import in_main_thread

if TYPE_CHECKING:
    from .board import Board
    from .forms import Request
    from .notebook import ProgressLine
    from .replayed import Replayed
    from .replaying import Progress
    from .sessions import Session

__all__ = ["Magics", "agent_options", "compare_options", "current", "load", "replay_options", "unload"]

_current: Magics | None = None
_HINTS = {  # by program: what somebody probably meant who typed words that no argument takes
    "mcp connect": "A command goes behind --, after all options: %mcp connect NAME -- COMMAND ARGS. ",
    "%agent": "The question goes below the line that begins with %%agent. ",
    "%compare": "The question goes below the line that begins with %%compare. ",
}


class Magics:
    """What one notebook has loaded: its session, and the catalogs it shows."""

    def __init__(self, ip: Any) -> None:
        from .sessions import Session
        from .typed import Typist

        self.ip = ip
        self.session: Session = Session(on_request=self._on_request)
        self._typist = Typist(self.session)
        self._line: ProgressLine | None = None
        self._progress: Progress | None = None  # of a replay that runs
        self._gap: str | None = None  # that was told of
        self.session.loop.idle = self._idle
        self.boards: list[Board] = []
        self._clickable = False  # of the running turn; `headless` is of the last request, which may be a subshell's

    @property
    def headless(self) -> bool:
        """Nobody can click: nbclient, nbconvert, papermill, a terminal."""
        kernel = getattr(self.ip, "kernel", None)
        return kernel is None or not getattr(kernel, "_allow_stdin", True)

    def _idle(self) -> None:
        """While a magic blocks: let a person answer a server, and see how far it is."""
        self._typist()
        if not self.headless and (text := self._told()) is not None:
            from .notebook import ProgressLine

            self._line = self._line or ProgressLine()
            self._line(text)

    def _told(self) -> str | None:
        """How far it is."""
        if self._progress is not None:
            from .view.replayed import progress

            return progress(self._progress)
        from .notebook import told

        return told(self.session)

    def _on_request(self, request: Request) -> Any:
        """Whether somebody can answer a server: in the live view of a turn, by typing while a magic blocks, or later."""
        why = "in a batch run nobody can answer"
        if request.turn is not None and request.turn == self.session.watched:
            possible = self._clickable
        elif self.headless:
            terminal = getattr(self.ip, "kernel", None) is None and sys.stdin is not None and sys.stdin.isatty()
            possible = terminal and self.session.loop.blocking
        else:
            possible = request.turn is None or self.session.loop.blocking
            why = "this cell shows no form; use %%agent"
        return "wait" if possible else Answer(action="decline", actor="host", rule="nobody can answer", reason=why)

    def show(self, bundle: Mapping[str, Any]) -> None:
        """A result, in the place of the line that said how far it was."""
        from IPython.display import display

        if self._line is None:
            display(bundle, raw=True)
        else:
            self._line.show(bundle)

    def sync(self) -> None:
        """Bring the displayed catalogs up to date, and say, once, that the audit log has a gap."""
        for board in self.boards:
            board.sync()
        problem = self.session.log.problem if self.session.log else None
        if problem not in (None, self._gap):
            print(f"The audit log has a gap: {problem}. %mcp audit says more", file=sys.stderr)
        self._gap = problem

    def mcp(self, line: str) -> None:
        """%mcp SUBCOMMAND ...: connect servers, see their catalog, read and attach. `%mcp --help` lists them all."""
        words = _split(line)
        if words and words[0] in ("-h", "--help", "help"):
            print(_overview())
            return
        name = words[0] if words else "status"
        if name not in COMMANDS:
            raise UsageError(f"%mcp has no {name!r}; it has: {', '.join(COMMANDS)}. %mcp --help says what they do.")
        try:
            if (options := _parse(COMMANDS[name], words[1:])) is not None:
                COMMANDS[name](self, options)
        except KeyboardInterrupt:
            raise Stopped(f"%mcp {name} was stopped; what was connected and attached is as it was") from None
        finally:
            if self._line is not None:
                self._line.done()
            self.sync()

    async def agent(self, line: str, cell: str) -> None:
        """%%agent [options], and the question below: ask the agent, and see the answer and the trace."""
        from . import notebook

        options = _parse(agent_options, _split(line))
        if options is None:
            return
        headless = self.headless
        self._clickable = not headless
        try:
            await notebook.ask(
                self.session, cell.strip(), headless=headless, model=options.model, pattern=options.pattern,
                approve=options.approve, new=options.new,
            )  # fmt: skip
        finally:
            self.sync()

    async def compare(self, line: str, cell: str) -> None:
        """%%compare [options], and the question below: ask under several patterns, and see what each costs and loses."""
        from . import notebook

        options = _parse(compare_options, _split(line))
        if options is None:
            return
        self._clickable = False
        try:
            await notebook.compare(
                self.session, cell.strip(), headless=self.headless, patterns=options.patterns, model=options.model,
                repeat=options.repeat, expect=options.expect,
            )  # fmt: skip
        finally:
            self.sync()

    def replay(self, line: str) -> None:
        """%replay [options] TURNS: run stored turns again under several patterns and models, and see rates with intervals."""
        options = _parse(replay_options, _split(line))
        if options is None:
            return
        before = len(self.session.replays)
        try:
            self.session.replay(
                self._turns(options.turns), options.patterns, options.models, repeat=options.repeat,
                concurrency=options.concurrency, store=options.store, seed=options.seed, recording=options.recording,
                most_tokens=options.most_tokens, most_usd=options.most_usd, approve=options.approve,
                scheduler=options.scheduler, live=self._running,
            )  # fmt: skip
        except KeyboardInterrupt:
            raise Stopped(
                "the replay was stopped; what has finished is kept, and the same line goes on from there"
            ) from None
        finally:
            self._progress = None
            for replayed in self.session.replays[before:]:
                self._show_replay(replayed)
            if self._line is not None:
                self._line.done()

    def _running(self, progress: Progress) -> None:
        self._progress = progress
        if in_main_thread():  # else it waits, and asks by itself how far it is
            self._idle()

    def _turns(self, named: str | None) -> Any:
        """A file, or what a variable of the notebook holds; the notebook's own turns where none is named."""
        if named is None:
            if not self.session.turns:
                raise UsageError(
                    "name a file of turns, as in %replay turns.jsonl; this notebook has none of its own yet"
                )
            return self.session.turns
        held = self.ip.user_ns.get(named) if named.isidentifier() and not Path(named).exists() else None
        return named if held is None else held

    def _show_replay(self, replayed: Replayed) -> None:
        from IPython.display import display

        self.show(replayed._repr_mimebundle_())
        for chart in replayed.charts():
            display(chart)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be taken apart: {error}. Put words with blanks between quotes.") from None


def _parse(command: Any, words: Sequence[str]) -> Namespace | None:
    """The options of a command; after `--help`, which is printed, `None`. What follows `--` is `options.command`."""
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    if "--help" in words[:cut] or "-h" in words[:cut]:
        print(_plain(command.parser.format_help()))
        return None
    try:
        options: Namespace = command.parser.parse_intermixed_args(words[:cut])  # options may stand between
    except IPythonUsageError as error:  # IPython would print it on stderr, where a saved notebook shows no error
        hint = _HINTS.get(command.parser.prog, "") if "unrecognized" in str(error) else ""
        raise UsageError(f"{error}. {hint}{_plain(command.parser.format_usage())}") from None
    options.command = words[cut + 1 :]
    return options


def _plain(help_text: str) -> str:
    return help_text.strip().removeprefix("::").strip()  # IPython's formatter writes for Sphinx


def _overview() -> str:
    lines = [f"  %mcp {name:<12} {function.summary}" for name, function in COMMANDS.items()]
    return "\n".join(
        [
            *lines,
            "  %%agent           Ask the agent a question.",
            "  %%compare         Ask it under several patterns.",
            "  %replay           Run stored turns again, many at a time.",
            "Each takes --help.",
        ]
    )


@magic_arguments("%compare")
@argument(
    "--patterns", metavar="P,P,...",
    help="what is compared, such as dump,truncate(500),attach(URI)+catalog; attach is what is attached now; "
    f"default: {','.join(COMPARED)}, without attach where nothing is attached",
)  # fmt: skip
@argument("--model", help="as for %%agent; default: the session's")
@argument("--repeat", type=int, default=1, help="how many times each pattern is asked")
@argument("--expect", metavar="TEXT", help="what a right answer holds, or /a regular expression/")
def compare_options() -> None:
    """Ask the question below the line under several patterns, and compare what each costs and loses."""


@magic_arguments("%agent")
@argument("--model", help="demo, openai:NAME, anthropic:NAME, ollama:NAME ...; default: the session's")
@argument(
    "--pattern",
    default="catalog",
    help="what is in the context: dump, truncate(2000), catalog, search, attach(URI), companion, or a sum",
)
@argument("--approve", choices=("ask", "all", "none"), default="ask", help="who allows the servers' own tools to run")
@argument("--new", action="store_true", help="start a new thread: the model does not get the turns before")
def agent_options() -> None:
    """Ask the agent the question below the line."""


@magic_arguments("replay")
@argument(
    "turns", nargs="?", metavar="TURNS",
    help="a file of JSON lines (id, question, relevant, expect, attach, messages), or a variable that holds such a list or a "
    "DataFrame; default: the turns of this notebook",
)  # fmt: skip
@argument(
    "--patterns", metavar="P,P,...", default="catalog,attach", help="as for %%compare; attach is what each turn names"
)
@argument("--models", metavar="M,M,...", help="models as for %%agent, separated by commas; default: the session's")
@argument("--repeat", type=int, default=1, help="how many times each turn is run under each")
@argument("--concurrency", type=int, default=8, help="turns at a time")
@argument(
    "--store", metavar="FILE", help="where results are kept; default: beside the file of turns, NAME.replay.sqlite"
)
@argument("--seed", type=int, default=0, help="of all that is drawn")
@argument("--recording", metavar="FILE", help="answer reads from this file, and add to it what is not there yet")
@argument("--most-tokens", type=int, metavar="N", help="stop before more are used")
@argument("--most-usd", type=float, metavar="N", help="stop before it costs more, by list prices")
@argument("--approve", choices=("all", "none"), default="none", help="whether the servers' own tools may run")
@argument("--scheduler", metavar="tcp://HOST:PORT", help="run the turns on the workers of this Dask scheduler")
def replay_options() -> None:
    """Run stored turns again under several patterns and models: hit rates with intervals, tokens, seconds."""


# -- loading


def _await(lines: list[str]) -> list[str]:
    # An awaiting cell gets clicks and Stop while it runs, a blocking one does not (docs/adr/0003-awaited-cell.md).
    if lines and (found := re.match(r"%%(agent|compare)(?:\s|$)", lines[0])):
        line, body = lines[0][found.end() :].strip(), "".join(lines[1:]) or "\n"  # IPython refuses an empty body
        return [f"await get_ipython().run_cell_magic({found[1]!r}, {line!r}, {body!r})\n"]
    return lines


def current() -> Magics:
    """What `%load_ext workbench` made; raises `UsageError` before."""
    if _current is None:
        raise UsageError("the extension is not loaded: %load_ext workbench. In a script: workbench.Session()")
    return _current


def load(ip: Any) -> None:
    """Register the magics; loading twice keeps the session."""
    global _current
    if _current is not None:
        return
    from .completion import complete

    _current = magics = Magics(ip)

    @no_var_expand
    def mcp(line: str) -> None:
        magics.mcp(line)

    @no_var_expand
    def agent(line: str, cell: str) -> Any:
        return magics.agent(line, cell)

    @no_var_expand
    def compare(line: str, cell: str) -> Any:
        return magics.compare(line, cell)

    @no_var_expand
    def replay(line: str) -> None:
        magics.replay(line)

    replay.__doc__ = Magics.replay.__doc__
    ip.register_magic_function(replay, "line", "replay")
    for name, function in (("agent", agent), ("compare", compare)):
        function.__doc__ = getattr(Magics, name).__doc__
        ip.register_magic_function(function, "cell", name)
    mcp.__doc__ = Magics.mcp.__doc__
    ip.register_magic_function(mcp, "line", "mcp")
    ip.input_transformers_cleanup.append(_await)
    ip.Completer.custom_matchers.append(complete)


def unload(ip: Any) -> None:
    """Close every connection and take the magics away."""
    global _current
    from .completion import complete

    if _current is None:
        return
    for board in _current.boards:
        board.close()
    _current.session.close()
    _current = None
    magics = ip.magics_manager.magics
    del magics["line"]["mcp"], magics["line"]["replay"], magics["cell"]["agent"], magics["cell"]["compare"]
    ip.input_transformers_cleanup.remove(_await)
    ip.Completer.custom_matchers.remove(complete)
