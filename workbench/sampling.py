"""`sampling/createMessage`: a server has a model answer for it, at the expense of whoever uses the workbench.

After the MCP specification, "Sampling". Nothing of our own goes into the request: neither the thread nor the catalog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import decode, ledger, messages, models, tokens, tools
from .content import clean, visible
from .errors import WorkbenchError
from .forms import Refusal, Request
from .ledger import Piece
from .recorder import Open, Recorder

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["run", "understood"]

LONGEST = 1_000_000
"""Characters of a request; what is longer nobody can look through before they say yes."""


async def understood(server: str, params: Mapping[str, Any], mask: Callable[[str], str] = str) -> dict[str, Any]:
    """The fields of a `Request`; raises `Refusal` for what cannot be run. Masked: the person sees what the model gets."""
    if params.get("tools"):
        raise Refusal("this client does not let a model call tools while it samples (no capability sampling.tools)")
    given = decode.prompt_result(server, "sampling", params).messages
    if not given:
        raise Refusal("messages is empty")
    # On a thread: an image or a PDF takes a while to describe.
    texts = await asyncio.to_thread(lambda: [tools.rendered(x.items, server, frozenset()).text for x in given])
    turns = tuple((message.role, text) for message, text in zip(given, map(mask, texts), strict=True))
    system = mask(clean(params.get("systemPrompt") or ""))
    if (size := len(system) + sum(len(text) for _, text in turns)) > LONGEST:
        raise Refusal(f"the messages have {size:,} characters; a person can look through {LONGEST:,}")
    if (limit := int(params.get("maxTokens") or 0)) < 1:
        raise Refusal("maxTokens must be 1 or more")
    shown = [f"system:\n{system}"] if system else []
    return {
        "kind": "sampling", "system": system, "messages": turns, "max_tokens": limit, "wishes": _wishes(params, mask),
        "message": "\n\n".join([*shown, *(f"{role}:\n{text}" for role, text in turns)]),
        "stop": tuple(params.get("stopSequences") or ()),
    }  # fmt: skip


def _wishes(params: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, str]:
    """What the server would like, and is not bound to get."""
    preferences = decode.mapping(params.get("modelPreferences"))
    hints = [str(decode.mapping(hint).get("name")) for hint in preferences.get("hints") or ()]
    named = {
        "models": ", ".join(hints), "temperature": params.get("temperature"), "context": params.get("includeContext"),
        **{name: preferences.get(f"{name}Priority") for name in ("cost", "speed", "intelligence")},
    }  # fmt: skip
    return {name: visible(mask(str(value))) for name, value in named.items() if value not in (None, "", "none")}


async def run(request: Request, chat: BaseChatModel, number: int | None, recorder: Recorder) -> dict[str, Any]:
    """Ask the model, and give the result for the server. The call is a span like any other provider call.

    `number` is its place among the provider calls of its turn. Raises `Refusal` when the provider fails: its own words are
    for the trace, not for the server.
    """
    name, counter = models.model_name(chat), tokens.counter().name
    pieces = [Piece("system", f"asked by {request.server}", request.system)]
    pieces += [Piece("sampling", request.server, text) for _, text in request.messages]
    made_of = await asyncio.to_thread(ledger.counted, [piece for piece in pieces if piece.text])
    about = {} if number is None else {"call": number}
    try:
        with recorder.span(
            "model", name, "host", requested_by=request.server, composition=made_of, counter=counter, **about
        ) as span:
            text, reason = await _reply(request, chat, name, span)
    except WorkbenchError as error:
        raise Refusal(f"the client's model {name} could not answer", -32603) from error
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": name, "stopReason": reason}


async def _reply(request: Request, chat: BaseChatModel, name: str, span: Open) -> tuple[str, str]:
    limited, cut = models.limited(chat, request.max_tokens), False
    asked = messages.conversation(clean(request.system), request.messages)
    whole: Any = None
    given = 0
    try:
        async for chunk in limited.model.astream(asked, **({"stop": list(request.stop)} if request.stop else {})):
            whole = chunk if whole is None else whole + chunk
            given += 0 if limited.by_model else tokens.count(messages.text_of(chunk))
            if cut := bool(request.max_tokens and given >= request.max_tokens):
                break
    except (asyncio.CancelledError, WorkbenchError):
        raise
    except Exception as error:
        raise models.provider_error(name, error) from error
    text = messages.text_of(whole) if whole is not None else ""
    span.note(output_tokens_estimated=tokens.count(text), bytes=len(text.encode(errors="replace")))
    if whole is not None and (usage := models.usage_of(whole)) is not None:
        span.set(usage=usage)
    return clean(text), "maxTokens" if cut or models.was_cut(whole) else "endTurn"
