"""The subcommands of `%mcp`: each calls one method of the session and shows one thing. Each gets the loaded magics and its
options, which come from its `@argument`s."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic_arguments import argument, magic_arguments

from . import hygiene, listing, policy
from . import log as audit_log
from .content import in_folder, visible
from .errors import UsageError
from .notices import LEVELS
from .span import sentence

if TYPE_CHECKING:
    from .catalog import Kind
    from .forms import Action
    from .magics import Magics
    from .sessions import Session

__all__ = ["COMMANDS"]

COMMANDS: dict[str, Any] = {}
"""By name, each with its `parser`."""
# Catalogs that stay live: each costs a pass over its rows after every magic, and running a cell again adds one.
_BOARDS = 4


def _command(function: Any) -> Any:
    summary = function.__doc__.strip().splitlines()[0]  # IPython is about to replace the docstring by the help
    name = {"policies": "policy"}.get(function.__name__, function.__name__)  # `policy` is a module here
    COMMANDS[name] = function = magic_arguments(f"mcp {name}")(function)
    function.summary = summary
    return function


def _show(text: str) -> None:
    from IPython.display import display

    display(_text(text), raw=True)


def _text(text: str) -> dict[str, str]:
    from .content import harmless

    return {"text/plain": harmless(text)}


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
    lines += [str(rule) for rule in session.policies]
    lines += (
        [f"this folder keeps a policy, {policy.FILE}, which is not used yet: %mcp policy --use"]
        if not session.policies and Path(policy.FILE).exists()
        else []
    )
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
    without, same = listing.undescribed(offer)
    if without or same:
        readable = f"{len(offer.resources) + len(offer.templates):,} resources and templates"
        lines.append(
            f"  a model chooses by descriptions: of {readable} {without:,} have none, {same:,} one that another has, too"
        )
    return "\n".join([*lines, *(f"  {problem}" for problem in (*connection.target.notes, *offer.problems))])


def _catalog(magics: Magics, kinds: Sequence[Kind]) -> None:
    from .board import show_catalog

    if (board := show_catalog(magics.session, kinds, headless=magics.headless)) is not None:
        magics.boards.append(board)
        while len(magics.boards) > _BOARDS:
            magics.boards.pop(0).close(
                f"This table is as it was, no longer live: only the {_BOARDS} newest are. Run its cell again to click in it."
            )


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

    if options.save:  # before a read that may be slow, or count
        try:
            if in_folder(options.save).exists():
                raise FileExistsError(f"{options.save} is there already. Give another name")
        except OSError as error:
            raise UsageError(f"{options.uri} was not read: {error}") from None
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
    waiting = {asked.id: text.request(asked, session.mask) for asked in session.pending}
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


@argument(
    "carry", nargs="*", help="a URI, a name, either with *, or words such as `engineering sessions carry style-guide`"
)
@argument("--always", action="store_true", help="every turn carries it from now on")
@argument("--server", help="only of this server")
@argument("--refresh", choices=("once", "turn", "notify"), default="once", help="as for %%mcp attach")
@argument("--drop", action="store_true", help="no longer carry it; what is attached stays until %%mcp detach")
@argument("--use", nargs="?", const=policy.FILE, metavar="FILE", help=f"carry what a file says; default {policy.FILE}")
@argument("--save", nargs="?", const=policy.FILE, metavar="FILE", help=f"write the rules; default {policy.FILE}")
def policies(magics: Magics, options: Namespace) -> None:
    """Say which resources every turn carries; alone, show the rules and what they cover."""
    session, said = magics.session, " ".join(options.carry)
    if options.use:
        session.policy(*policy.load(options.use))
    if said and options.drop:
        session.drop_policy(said)
    elif said:
        if not (options.always or " carr" in said):
            raise UsageError(f"say that every turn is to carry it: %mcp policy {shlex.quote(said)} --always")
        session.policy(*policy.parse(said, server=options.server, refresh=options.refresh))
    if options.save:
        policy.save(options.save, session.policies)
        rules = len(session.policies)
        _show(f"wrote {rules} rule{'' if rules == 1 else 's'} to {options.save}")
    _show(
        "\n".join(_covered(session)) or "no policy: %mcp policy docs://style-guide --always makes every turn carry it"
    )


def _covered(session: Session) -> list[str]:
    found = policy.matching(session.policies, session.offer)
    lines = []
    for rule in session.policies:
        uris = [f"{visible(uri)} ({server})" for each, server, uri in found if each is rule]
        more = f" and {len(uris) - 5:,} more" if len(uris) > 5 else ""
        lines.append(f"{rule}: {', '.join(uris[:5])}{more}" if uris else f"{rule}: nothing that is offered now")
    return lines


@argument("question", nargs="*", help="the question that would be asked")
@argument("--pattern", default="catalog", help="as for %%agent")
@argument("--model", help="as for %%agent")
def context(magics: Magics, options: Namespace) -> None:
    """Show what the next provider call would be made of, before it is made; nothing is sent to a model."""
    from .view import text

    question = " ".join(options.question)
    magics.show(_text(text.context(magics.session.context(question, pattern=options.pattern, model=options.model))))


@argument("--off", choices=tuple(hygiene.KINDS), action="append", default=[], help="no such notes from now on")
@argument("--on", choices=tuple(hygiene.KINDS), action="append", default=[], help="such notes again")
def notes(magics: Magics, options: Namespace) -> None:
    """Switch kinds of notes under a trace off and on; alone, say which there are."""
    hygiene.OFF.update(options.off)
    hygiene.OFF.difference_update(options.on)
    _show("\n".join(f"{kind}: {'off' if kind in hygiene.OFF else 'on'}" for kind in hygiene.KINDS))


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


def _only(session: Session) -> str:
    """The one connection that there is; raises `UsageError` where one has to be named."""
    session.servers.need_server()
    if len(names := list(session.connections)) > 1:
        raise UsageError(f"of which server? {' or '.join(f'%mcp logs {shlex.quote(name)}' for name in names)}")
    return names[0]


@argument("name", nargs="?", help="the connection's name; may be left out where there is one only")
@argument("--lines", type=int, default=20, help="how many of the last lines")
@argument("--level", choices=LEVELS, default="debug", help="only log messages at least as urgent")
@argument("--set-level", choices=LEVELS, help="ask the server to send log messages from this level on")
def logs(magics: Magics, options: Namespace) -> None:
    """Show a server's last log messages, its lines on stderr, and those on stdout that were no messages."""
    session = magics.session
    name = _only(session) if options.name is None else options.name
    connection = session.connection(name)
    if options.set_level:
        session.set_log_level(name, options.set_level)
    last, above = max(0, options.lines), "" if options.level == "debug" else f" of level {options.level} and above"
    found = {
        f"log messages{above}": [str(line) for line in connection.log.tail(last, options.level)],
        "stderr": connection.stderr(last) if last else [],
        "stdout, beside the protocol": connection.stray(last) if last else [],
    }
    said = [f"{name} is asked for log messages from {options.set_level} on"] if options.set_level else []
    for head, lines in found.items():
        said += [
            f"{head}:",
            *(f"  {line}" for line in lines or ["nothing"]),
        ]  # indented, so that none can pose as a head
    _show("\n".join(said))


@argument("uri", nargs="?", help="only what has to do with this URI, tool, prompt or server")
@argument("--turn", type=int, metavar="N", help="only of this turn")
@argument(
    "--audit", nargs="?", const=audit_log.FOLDER, metavar="DIR", help="of all sessions in this audit log, with dates"
)
def log(magics: Magics, options: Namespace) -> None:
    """Say in sentences who read what, when, and by which rule."""
    if options.audit is None:
        told, aside = [("", span) for span in magics.session.spans], list[str]()
    else:
        found, aside = audit_log.read(options.audit)
        last = {(each.row["session"], each.row["span"]["id"]): each for each in found if "span" in each.row}
        told = [(f"{each.row['time'][:10]} {each.row['session']} ", each.span) for each in last.values() if each.span]
    lines = [
        before + sentence(span)
        for before, span in told
        if span.kind != "gate"
        and options.turn in (None, span.turn)
        and options.uri in (None, span.name, span.detail.get("uri"), span.detail.get("server"))
    ]
    nothing = "nothing of that has happened" if options.uri or options.turn is not None else "nothing has happened yet"
    _show("\n".join([*lines, *aside]) or nothing)


@argument("what", nargs="?", choices=("on", "off", "verify"), help="alone, say what is written")
@argument("folder", nargs="?", help=f"default: {audit_log.FOLDER}, beside the notebook")
@argument("--no-content", action="store_true", help="keep hashes of what was read, and not the content itself")
@argument("--most-mb", type=float, metavar="N", help="remove the oldest finished files where the folder is larger")
def audit(magics: Magics, options: Namespace) -> None:
    """Write an audit log of what happens, end it, or check that nobody has changed it."""
    session, folder = magics.session, options.folder or audit_log.FOLDER
    if options.what == "verify":
        found = audit_log.verify(folder)
        _show(str(found))
        if not found:
            raise UsageError(f"the audit log in {folder} is not as it was written: see above")
        return
    if options.what == "on":
        most = None if options.most_mb is None else int(options.most_mb * 1e6)
        session.audit(folder, content=not options.no_content, most_bytes=most)
    elif options.what == "off":
        session.audit(None)
    _show(f"writing {session.log}" if session.log else "no audit log is written; %mcp audit on begins one")


for _function in (
    connect, status, resources, templates, prompts, tools, read, prompt, attach, detach, policies, context, notes, answer,
    disconnect, reconnect, logs, log, audit,
):  # fmt: skip
    _command(_function)
