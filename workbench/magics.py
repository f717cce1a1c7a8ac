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
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from .errors import Stopped, UsageError
from .forms import Answer
from .notices import LEVELS
from .span import sentence

if TYPE_CHECKING:
    from .catalog import Kind
    from .forms import Action, Request
    from .notebook import Board, ProgressLine
    from .sessions import Session

__all__ = ["COMMANDS", "Magics", "agent_options", "current", "load", "unload"]

COMMANDS: dict[str, Any] = {}
"""`%mcp` subcommands by name, each with its `parser`."""
_current: Magics | None = None
_HINTS = {  # by program: what somebody probably meant who typed words that no argument takes
    "mcp connect": "A command goes behind --, after all options: %mcp connect NAME -- COMMAND ARGS. ",
    "%agent": "The question goes below the line that begins with %%agent. ",
}
# Catalogs that stay live: each costs a pass over its rows after every magic, and running a cell again adds one.
_BOARDS = 4


def _command(function: Any) -> Any:
    summary = function.__doc__.strip().splitlines()[0]  # IPython is about to replace the docstring by the help
    COMMANDS[function.__name__] = function = magic_arguments(f"mcp {function.__name__}")(function)
    function.summary = summary
    return function


class Magics:
    """What one notebook has loaded: its session, and the catalogs it shows."""

    def __init__(self, ip: Any) -> None:
        from .sessions import Session
        from .typed import Typist

        self.ip = ip
        self.session: Session = Session(on_request=self._on_request)
        self._typist = Typist(self.session)
        self._line: ProgressLine | None = None
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
        if not self.headless and self.session.progressing is not None:
            from .notebook import ProgressLine

            self._line = self._line or ProgressLine(self.session)
            self._line()

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
        """Bring the displayed catalogs up to date."""
        for board in self.boards:
            board.sync()

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
    return "\n".join([*lines, "  %%agent           Ask the agent a question.", "Each takes --help."])


# -- the subcommands. Each gets the loaded magics and its options.


@argument("name", nargs="?", help="what the connection is called; `demo` alone starts the bundled server")
@argument("url", nargs="?", help="an http(s) address; a command goes behind --")
@argument(
    "--header",
    action="append",
    default=[],
    metavar="NAME:VALUE",
    help="an HTTP header; ${VAR} comes from the environment",
)
@argument(
    "--env", action="append", default=[], metavar="NAME[=VALUE]", help="an environment variable to pass to the server"
)
@argument("--cwd", help="the folder in which the command is started")
@argument("--sse", action="store_true", help="the server speaks legacy SSE")
@argument("--root", action="append", default=[], metavar="DIR", help="a folder that the server is told of when it asks")
@argument(
    "--bridge", action="store_true", help="the server speaks only a newer MCP: go through a proxy (extra `bridge`)"
)
@argument("--timeout", type=float, default=60.0, help="seconds for the handshake and for each request")
@argument(
    "--config",
    nargs="+",
    metavar=("FILE", "NAME"),
    help="the servers of a .mcp.json, .vscode/mcp.json, claude_desktop_config.json, .cursor/mcp.json or "
    "cline_mcp_settings.json; by default all that are not disabled",
)
def connect(magics: Magics, options: Namespace) -> None:
    """Connect to a server: NAME -- COMMAND ARGS, or NAME URL."""
    if options.config:
        return _connect_config(magics, options)
    if not options.url and not options.command and options.name != "demo":
        _offer_config(options.name)
    headers = dict(_pair(text, ":" if ":" in text.split("=")[0] else "=", "--header") for text in options.header)
    env = dict(_pair(text, "=", "--env") if "=" in text else (text, f"${{{text}}}") for text in options.env)
    if options.bridge and (options.url or options.command):
        _tell_of_bridge(magics.session)
    magics.session.connect(
        options.name or "", command=options.command, url=options.url, headers=headers, env=env, cwd=options.cwd,
        transport="sse" if options.sse else "http", timeout=options.timeout, bridge=options.bridge,
        roots=options.root,
    )  # fmt: skip
    _show(_status(magics.session, options.name))


def _tell_of_bridge(session: Session) -> None:
    from . import bridge

    if session.loop.run(bridge.made()) is None:
        _show("Making the bridge's environment, once: up to a minute, beside --timeout. Interrupt stops it.")


def _connect_config(magics: Magics, options: Namespace) -> None:
    from . import config

    path, *names = options.config
    # Those that were typed in front of --config, or behind another option.
    names += [word for word in (options.name, options.url) if word]
    if options.command or options.header or options.env or options.cwd or options.sse or options.bridge or options.root:
        raise UsageError(
            "with --config the command, --header, --env, --cwd, --sse, --bridge and --root come from the file; leave them out: "
            f"%mcp connect --config {shlex.quote(path)} {' '.join(map(shlex.quote, names))}".rstrip()
        )
    file, before = config.load(path), dict(magics.session.connections)
    skipped = [entry.name for entry in file.entries.values() if entry.disabled and not names]
    try:
        magics.session.connect_config(path, names, timeout=options.timeout)
    finally:  # also where one has failed: what else stands now
        now = magics.session.connections
        lines = [*file.notes, *(_status(magics.session, name) for name in now if before.get(name) is not now[name])]
        lines += [f"{', '.join(skipped)}: disabled in {path}, so not connected unless named"] if skipped else []
        if lines:
            _show("\n".join(lines))


def _offer_config(name: str | None) -> None:
    """Where a file has what is to be connected, say so instead of asking for a command; nothing is started unasked."""
    from . import config

    if name and name.endswith(".json"):
        raise UsageError(f"that is a file, not a name: %mcp connect --config {shlex.quote(name)}")
    if offers := config.offers(name):
        raise UsageError(f"connect {name or 'NAME'} to what? {offers}")


def _pair(text: str, sign: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise UsageError(f"{option} wants NAME{sign}VALUE; no {sign!r} was found in what was given")
    return name.strip(), value.strip()


def status(magics: Magics, options: Namespace) -> None:
    """Say what is connected and attached (also plain %mcp)."""
    from . import config

    session = magics.session
    lines = [_status(session, name) for name in session.connections] or [
        "no server is connected. Connect one: %mcp connect demo",
        *config.offers().splitlines(),
    ]
    stale = session.stale
    lines += [
        f"attached by the {a.actor}: {a.uri} (server {a.server})"
        + ("; it may have changed, and the next turn reads it again" if key in stale else "")
        for key, a in session.attachments.items()
    ]
    lines += [
        f"{asked.server} waits for an answer to its request {asked.id}: %mcp answer {asked.id}"
        for asked in session.pending
    ]
    _show("\n".join(lines))


def _status(session: Session, name: str) -> str:
    connection, offer = session.connections[name], session.offer.only(name)
    state = "connected" if connection.alive else "ended"
    counts = [(len(getattr(offer, f"{kind}s")), kind) for kind in ("resource", "template", "prompt", "tool")]
    offered = (
        ", ".join(f"{number} {kind}{'' if number == 1 else 's'}" for number, kind in counts if number) or "nothing"
    )
    lines = [
        f"{name}: {state} over {connection.target.transport} to {connection.server_info or connection.target.where}, "
        f"which {connection.speaks}; it offers {offered}"
    ]
    lines += [f"  it is told of the folder {root}" for root in connection.target.roots]
    return "\n".join([*lines, *(f"  {problem}" for problem in (*connection.target.notes, *offer.problems))])


def _catalog(magics: Magics, kinds: Sequence[Kind]) -> None:
    from .notebook import show_catalog

    if (board := show_catalog(magics.session, kinds, headless=magics.headless)) is not None:
        magics.boards.append(board)
        while len(magics.boards) > _BOARDS:
            magics.boards.pop(0).close()


def resources(magics: Magics, options: Namespace) -> None:
    """Show the clickable catalog: resources and resource templates."""
    _catalog(magics, ("resource", "template"))


def templates(magics: Magics, options: Namespace) -> None:
    """Show the resource templates."""
    _catalog(magics, ("template",))


def prompts(magics: Magics, options: Namespace) -> None:
    """Show the prompts."""
    _catalog(magics, ("prompt",))


def tools(magics: Magics, options: Namespace) -> None:
    """Show the servers' tools."""
    _catalog(magics, ("tool",))


@argument("uri", help="the URI as the catalog spells it")
@argument("--server", help="needed only when two servers list it")
@argument("--save", metavar="FILE", help="write it to this file instead of showing it, byte for byte")
def read(magics: Magics, options: Namespace) -> None:
    """Read a resource for yourself and see or save it; nothing goes to a model."""
    from .view.content import bundle

    content = magics.session.read(options.uri, options.server)
    if options.save:
        try:
            paths = content.save(options.save)
        except OSError as error:
            raise UsageError(f"{options.uri} was read but not saved: {error}") from None
        saved = "\n".join(f"saved {path} ({path.stat().st_size:,} bytes)" for path in paths)
        return magics.show(_text(saved or "the server answered no content"))
    magics.show(bundle(content))


@argument("name", help="the prompt's name")
@argument("values", nargs="*", metavar="NAME=VALUE", help="its arguments")
@argument("--server", help="needed only when two servers have it")
def prompt(magics: Magics, options: Namespace) -> None:
    """Expand a prompt for yourself and see its messages; nothing goes to a model."""
    from .tools import prompt_text

    values = dict(_pair(text, "=", "an argument") for text in options.values)
    result = magics.session.prompt(options.name, values, options.server)
    magics.show(_text(prompt_text(result)))


@argument("request", nargs="?", help="the request's id, as %%mcp answer lists it")
@argument(
    "values", nargs="*", metavar="FIELD=VALUE", help="fields of the form, by name or number; others have their default"
)
@argument("--accept", dest="action", action="store_const", const="accept", help="accept; FIELD=VALUE does too")
@argument("--decline", dest="action", action="store_const", const="decline", help="say no")
@argument("--cancel", dest="action", action="store_const", const="cancel", help="give no answer")
def answer(magics: Magics, options: Namespace) -> None:
    """Answer what a server asks outside a turn; without an answer, show what it asks."""
    from .view import text

    session = magics.session
    waiting = {asked.id: text.request(asked) for asked in session.pending}
    if options.request is None:
        _show("\n\n".join(waiting.values()) or "no server waits for an answer")
    elif options.request in waiting and not (options.values or options.action):
        how = f"%mcp answer {options.request} FIELD=VALUE ..., --accept, --decline or --cancel"
        _show(f"{waiting[options.request]}\nAnswer: {how}")
    else:
        values = dict(_pair(given, "=", "a field") for given in options.values)
        action: Action = options.action or "accept"
        session.answer(options.request, values, action=action)
        _show(f"{options.request}: {action}")


@argument("uri", help="the URI as the catalog spells it")
@argument("--server", help="needed only when two servers list it")
@argument(
    "--refresh",
    choices=("once", "turn", "notify"),
    default="once",
    help="read it now, or again at the start of each turn, or of a turn before which its server told of a change",
)
def attach(magics: Magics, options: Namespace) -> None:
    """Put a resource into the context of every following turn."""
    from .media import human_size, is_text_part

    done = magics.session.attach(options.uri, options.server, refresh=options.refresh)
    size, undo = human_size(done.content.size), f"%mcp detach {shlex.quote(done.uri)}"
    whole = all(is_text_part(part) for part in done.content.parts)
    note = "" if whole else "\nNot all of it is text: in place of the rest the model gets a note of its type and size."
    when = {
        "once": "",
        "turn": ", read again at each turn's start",
        "notify": ", read again when its server says it changed",
    }
    magics.show(
        _text(f"attached {done.uri} from {done.server} ({size}){when[done.refresh]}; take it out: {undo}{note}")
    )


@argument("uri", help="the URI as it was attached")
@argument("--server", help="needed only when two servers list it")
def detach(magics: Magics, options: Namespace) -> None:
    """Take a resource out of the following turns."""
    magics.session.detach(options.uri, options.server)
    _show(f"detached {options.uri}")


@argument("name", help="the connection's name")
def disconnect(magics: Magics, options: Namespace) -> None:
    """Close a connection; its server's process is ended."""
    magics.session.disconnect(options.name)
    _show(f"disconnected {options.name}")


@argument("name", help="the connection's name")
def reconnect(magics: Magics, options: Namespace) -> None:
    """Connect again to the same server, with the same settings."""
    magics.session.reconnect(options.name)
    _show(_status(magics.session, options.name))


@argument("name", help="the connection's name")
@argument("--lines", type=int, default=20, help="how many of the last lines")
@argument("--level", choices=LEVELS, default="debug", help="only log messages at least as urgent")
@argument("--set-level", choices=LEVELS, help="ask the server to send log messages from this level on")
def logs(magics: Magics, options: Namespace) -> None:
    """Show a server's last log messages, its lines on stderr, and those on stdout that were no messages."""
    session, connection = magics.session, magics.session.connection(options.name)
    if options.set_level:
        session.set_log_level(options.name, options.set_level)
    last, above = max(0, options.lines), "" if options.level == "debug" else f" of level {options.level} and above"
    found = {
        f"log messages{above}": [str(line) for line in connection.log.tail(last, options.level)],
        "stderr": connection.stderr(last) if last else [],
        "stdout, beside the protocol": connection.stray(last) if last else [],
    }
    said = [f"{options.name} is asked for log messages from {options.set_level} on"] if options.set_level else []
    for head, lines in found.items():
        said += [
            f"{head}:",
            *(f"  {line}" for line in lines or ["nothing"]),
        ]  # indented, so that none can pose as a head
    _show("\n".join(said))


def log(magics: Magics, options: Namespace) -> None:
    """Say in sentences who read what, when, and by which rule."""
    _show(
        "\n".join(sentence(span) for span in magics.session.spans if span.kind != "gate") or "nothing has happened yet"
    )


for _function in (
    connect, status, resources, templates, prompts, tools, read, prompt, attach, detach, answer, disconnect, reconnect,
    logs, log,
):  # fmt: skip
    _command(_function)


@magic_arguments("%agent")
@argument("--model", help="demo, openai:NAME, anthropic:NAME, ollama:NAME ...; default: the session's")
@argument("--pattern", default="catalog", help="what the model is told before it answers")
@argument("--approve", choices=("ask", "all", "none"), default="ask", help="who allows the servers' own tools to run")
@argument("--new", action="store_true", help="start a new thread: the model does not get the turns before")
def agent_options() -> None:
    """Ask the agent the question below the line."""


def _show(text: str) -> None:
    from IPython.display import display

    display(_text(text), raw=True)


def _text(text: str) -> dict[str, str]:
    from .content import harmless

    return {"text/plain": harmless(text)}


# -- loading


def _await_agent(lines: list[str]) -> list[str]:
    # An awaiting cell gets clicks and Stop while it runs, a blocking one does not (docs/adr/0003-awaited-cell.md).
    if lines and re.match(r"%%agent(?:\s|$)", lines[0]):
        line, body = lines[0][len("%%agent") :].strip(), "".join(lines[1:]) or "\n"  # IPython refuses an empty body
        return [f"await get_ipython().run_cell_magic('agent', {line!r}, {body!r})\n"]
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

    mcp.__doc__, agent.__doc__ = Magics.mcp.__doc__, Magics.agent.__doc__
    ip.register_magic_function(mcp, "line", "mcp")
    ip.register_magic_function(agent, "cell", "agent")
    ip.input_transformers_cleanup.append(_await_agent)
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
    del ip.magics_manager.magics["line"]["mcp"], ip.magics_manager.magics["cell"]["agent"]
    ip.input_transformers_cleanup.remove(_await_agent)
    ip.Completer.custom_matchers.remove(complete)
