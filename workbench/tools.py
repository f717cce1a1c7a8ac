"""What the model may call: the synthetic tools, and the servers' own through `langchain-mcp-adapters`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import catalog, media
from .content import Link, Offer, Part, PromptResult, Resource, Template, Tool, ToolResult, clean, for_people, visible
from .media import Rendered

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool

    from .connection import Connection, Timed

__all__ = [
    "FIND_RESOURCES", "INVOKE_PROMPT", "READ_RESOURCE", "Companion", "ServerTool", "companions", "prompt_text", "rendered",
    "result_rendered", "run", "server_tools", "synthetic",
]  # fmt: skip

READ_RESOURCE, INVOKE_PROMPT, FIND_RESOURCES = "read_resource", "invoke_prompt", "find_resources"


def synthetic(offer: Offer, names: Collection[str] = (READ_RESOURCE, INVOKE_PROMPT)) -> list[dict[str, Any]]:
    """The schemas of the tools of these names that no server has; the graph answers them. Auto-approved, whatever a server
    calls its own. Without a prompt there is no `invoke_prompt`."""
    makers = {READ_RESOURCE: _read_schema, INVOKE_PROMPT: _invoke_schema, FIND_RESOURCES: _find_schema}
    return [make() for name, make in makers.items() if name in names and (name != INVOKE_PROMPT or offer.prompts)]


def _read_schema() -> dict[str, Any]:
    read = _schema(
        READ_RESOURCE,
        "Read the full content of an MCP resource. Only what the catalog lists, what a resource template expands to, "
        "and what a tool result links to can be read.",
        ["uri"],
        {
            "uri": "The exact URI, as the catalog spells it.",
            "server": "The server's name; needed only when two servers list the same URI.",
        },
    )
    read["function"]["parameters"]["properties"]["offset"] = {
        "type": "integer",
        "description": "Where to go on in a text that did not fit into one answer, which says so; in characters.",
    }
    return read


def _invoke_schema() -> dict[str, Any]:
    invoke = _schema(
        INVOKE_PROMPT,
        "Use an MCP prompt from the catalog: its messages are put into the conversation.",
        ["name"],
        {
            "name": "The prompt's name.",
            "server": "The server's name; needed only when two servers have a prompt of that name.",
        },
    )
    invoke["function"]["parameters"]["properties"]["arguments"] = {
        "type": "object",
        "description": "The prompt's arguments by name; values are strings.",
        "additionalProperties": {"type": "string"},
    }
    return invoke


def _find_schema() -> dict[str, Any]:
    return _schema(
        FIND_RESOURCES,
        "Search the catalog of resources, resource templates and prompts by words of their names, URIs and descriptions. "
        "It finds entries, not content.",
        ["query"],
        {"query": "A few telling words.", "server": "Only of this server."},
    )


def _schema(name: str, description: str, required: list[str], properties: dict[str, str]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
        "required": required,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


# -- companions


@dataclass(frozen=True)
class Companion:
    """A tool that stands for one resource or template: without parameters, or with the template's variables.

    Its description is the entry's: what a model chooses by ("Expose resource as tool for agent discoverability").
    """

    name: str
    server: str
    uri: str
    """Of a template with its placeholders."""
    label: str
    mime: str | None
    description: str | None
    variables: tuple[str, ...]
    required: tuple[str, ...]
    embedded: bool
    """Whether it answers with the content, and not with a link to it."""

    @property
    def schema(self) -> Any:
        """What a provider is sent."""
        answer = "the content" if self.embedded else "a link"
        about = f"{visible(self.label)}: {self.description}" if self.description else visible(self.label)
        described = {name: f"Fills in {{{name}}} of {self.uri}" for name in self.variables}
        return clean(_schema(self.name, f"{about} (answers with {answer})", list(self.required), described))

    def link(self, arguments: Mapping[str, Any]) -> Link:
        """The exact URI, never a template. Raises `UsageError` naming the variables that have no value."""
        values = {name: str(arguments[name]) for name in self.variables if arguments.get(name) is not None}
        uri = catalog.fill(self.uri, values) if self.variables else self.uri
        return Link(uri=uri, name=self.label, mime=self.mime, description=self.description)


def companions(offer: Offer, embedded: bool) -> tuple[Companion, ...]:
    """One tool an entry, named after it: "Style guide" is `style_guide-tool`."""
    made: dict[str, Companion] = {}
    entries: list[Resource | Template] = [*offer.resources, *offer.templates]
    for entry in entries:
        if for_people(entry):
            continue
        variables = entry.variables if isinstance(entry, Template) else ()
        required = entry.required if isinstance(entry, Template) else ()
        wanted = f"{re.sub(r'[^a-zA-Z0-9]+', '_', entry.name).strip('_').lower() or 'resource'}"
        name = _model_name(wanted, f"{entry.server}\0{entry.uri}", made, "-tool")
        made[name] = Companion(
            name, entry.server, entry.uri, entry.label, entry.mime, entry.description, variables, required, embedded
        )
    return tuple(made.values())


# -- the servers' own tools


@dataclass(frozen=True)
class ServerTool:
    """A server's tool as the model sees it: a name that providers accept, and the adapters' tool behind it."""

    name: str
    tool: Tool
    run: BaseTool
    schema: dict[str, Any]
    """What a provider is sent (OpenAI's form, which LangChain turns into each provider's)."""


def _model_name(wanted: str, key: str, taken: Collection[str], ending: str = "") -> str:
    """`wanted` in the form that providers accept (`^[a-zA-Z0-9_-]{1,64}$`), told apart from those taken by a mark of `key`;
    it has the `ending` whatever is cut."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", wanted)
    if len(name) + len(ending) > 64 or f"{name}{ending}" in taken:
        ending = f"_{hashlib.sha256(key.encode()).hexdigest()[:8]}{ending}"
    return f"{name[: 64 - len(ending)]}{ending}"


def model_names(tools: Iterable[Tool]) -> list[str]:
    """One name a tool, `server__tool`, unique and of the form that providers accept.

    Always with the server's name: so it cannot shadow a synthetic tool, nor change when another server is connected.
    """
    names: list[str] = []
    for tool in tools:
        key = f"{tool.server}\0{tool.name}"
        names.append(
            _model_name(f"{tool.server}__{tool.name}", key, (READ_RESOURCE, INVOKE_PROMPT, FIND_RESOURCES, *names))
        )
    return names


async def server_tools(connections: Mapping[str, Connection], offer: Offer) -> tuple[list[ServerTool], list[str]]:
    """All tools of all living connections, each bound to its server's held session; and in words which were left out."""
    made: list[ServerTool] = []
    left_out: list[str] = []
    names = dict(zip(((t.server, t.name) for t in offer.tools), model_names(offer.tools), strict=True))
    for server, connection in connections.items():
        own = [tool for tool in offer.tools if tool.server == server]
        if own and not connection.alive:
            left_out.append(
                f"the tools of {server} are left out: it has ended. Start it again: %mcp reconnect {server}"
            )
        loaded = await _load(connection, own) if own and connection.alive else {}
        for tool in own:
            if tool.name not in loaded:
                continue
            try:
                made.append(_server_tool(names[server, tool.name], tool, loaded[tool.name]))
            except (
                Exception
            ) as error:  # a schema that refers to itself or to nowhere: LangChain raises whatever it meets
                reason = f"{type(error).__name__}: {visible(str(error))}"
                left_out.append(f"{visible(tool.name)} of {server} is left out: its schema cannot be used ({reason})")
    return made, left_out


def _server_tool(name: str, tool: Tool, loaded: BaseTool) -> ServerTool:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    run = loaded.model_copy(update={"name": name})
    return ServerTool(name, tool, run, clean(convert_to_openai_tool(run)))


async def _load(connection: Connection, tools: Sequence[Tool]) -> dict[str, BaseTool]:
    from langchain_core.messages import ToolMessage
    from langchain_mcp_adapters.tools import load_mcp_tools

    async def intercept(request: Any, handler: Any) -> ToolMessage:
        # Not handler(request): it raises on audio, on links and on a result that breaks its output schema, and it turns
        # a resource link into a file address that providers refuse. One request, one result, whatever it holds.
        timed = await connection.call(request.name, _arguments.get())
        return ToolMessage("", tool_call_id="", artifact=timed)

    loaded = await load_mcp_tools(connection.listing(tools), tool_interceptors=[intercept])
    return {tool.name: tool for tool in loaded}


_arguments: ContextVar[Mapping[str, Any]] = ContextVar("workbench_arguments")


async def run(tool: ServerTool, arguments: Mapping[str, Any]) -> Timed:
    """Call a server's tool: its `ToolResult`, and the seconds it took.

    The arguments go past LangChain, which passes them as keywords: a server may call one `self`, `config` or `runtime`.
    """
    token = _arguments.set(arguments)
    try:
        message: ToolMessage = await tool.run.ainvoke(
            {"type": "tool_call", "name": tool.name, "args": {}, "id": "call"}
        )
    finally:
        _arguments.reset(token)
    timed: Timed = message.artifact
    return timed


def result_rendered(result: ToolResult, takes: frozenset[str] | None) -> Rendered:
    """A tool's result as the model gets it: its items, and its structured content unless they say the same.

    Where an item is for people only, the structured content may hold it too, so it goes to no model either.
    """
    found = rendered(result.items, result.server, takes)
    kept = takes is not None and any(map(for_people, result.items))
    structured = "" if kept or _repeated(result) else clean(json.dumps(result.structured, ensure_ascii=False))
    text = "\n\n".join(filter(None, (found.text, structured)))
    return found._replace(text=text or "[The tool answered with no content.]")


def _repeated(result: ToolResult) -> bool:
    """Whether the structured content stands in the text items too, as the specification wants it ("Structured Content").

    The SDK's servers wrap what is no object in `{"result": ...}`, write each item of a list into a text of its own, and repeat
    content blocks as they are, images included.
    """
    if result.structured is None:
        return True
    texts = [item.data for item in result.items if isinstance(item, Part) and isinstance(item.data, str)]
    said = [*texts, *map(_parsed, texts)]
    alone = isinstance(result.structured, dict) and list(result.structured) == ["result"]
    inner = result.structured["result"] if alone else result.structured
    blocks = inner if isinstance(inner, list) else [inner]
    if len(blocks) == len(result.items) and all(map(_is_block, blocks)):
        return True
    return result.structured in said or inner in said or inner in (texts, said[len(texts) :])


_BLOCKS = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and _BLOCKS.get(str(value.get("type")), "type") in value.keys() - {"type"}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def rendered(items: Iterable[Part | Link], server: str, takes: frozenset[str] | None = None) -> Rendered:
    """Items of a prompt's message or a tool's result: text as it is, resources in blocks, links as text to act on.

    What a server marks for people only is left out where it goes to a model (`takes` is not `None`), and that is said.
    """
    items = tuple(items)
    people = [item for item in items if takes is not None and for_people(item)]
    made = [_item(item, server, takes) for item in items if item not in people]
    if people:
        made.append(Rendered(f"[Not shown to you: {len(people)} of {len(items)} items, which are for people only.]"))
    notes = dict.fromkeys(each.note for each in made if each.note)
    blocks = tuple(block for each in made for block in each.blocks)
    return Rendered("\n\n".join(each.text for each in made), "; ".join(notes) or None, blocks)


def prompt_text(result: PromptResult) -> str:
    """What a prompt expands to, for a person."""
    turns = (f"{message.role}:\n{rendered(message.items, result.server).text}" for message in result.messages)
    return "\n\n".join(turns) or "the prompt has no messages"


def _item(item: Part | Link, server: str, takes: frozenset[str] | None) -> Rendered:
    if isinstance(item, Link):
        return Rendered(media.link_text(item, server))
    if isinstance(item.data, str) and item.uri.startswith(("tool ", "prompt ")):
        return Rendered(clean(item.data))  # plain text, of no resource
    return media.for_model([item], server, takes)
