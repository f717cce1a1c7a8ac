"""From a name to a chat model. The only module that knows `langchain`; its provider packages are extras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import pictures
from .errors import ModelError
from .span import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

__all__ = [
    "Abilities",
    "Limited",
    "abilities",
    "limited",
    "model_name",
    "provider",
    "resolve",
    "seeded",
    "usage_of",
    "was_cut",
]

_KEYED = ("openai", "anthropic")
_EXTRAS = {"openai": "openai", "anthropic": "anthropic", "ollama": "ollama"}
_KNOWN = (
    "demo, openai:NAME, anthropic:NAME, ollama:NAME, any other PROVIDER:NAME of LangChain, or a BaseChatModel object"
)


def _demo(settings: str) -> BaseChatModel:
    from .demo import simulated
    from .demo.model import DemoModel

    return DemoModel(simulated=simulated.parse(settings))


OFFLINE: dict[str, Callable[[str], BaseChatModel]] = {"demo": _demo}
"""By name, and what makes one with the settings behind a question mark."""


def resolve(model: str | BaseChatModel) -> BaseChatModel:
    """A chat model by its LangChain name ("openai:gpt-4.1"), `demo`, or the object itself.

    `demo?first=1.4&next=2.1&miss=0.29&seed=7` is the demo model with simulated seconds and misses (`demo/simulated.py`).
    Raises `ModelError` for an unknown name or setting, a missing package (with the `pip install` that brings it) or a model
    that cannot be made, mostly for want of a key.
    """
    if not isinstance(model, str):
        if not (hasattr(model, "astream") and hasattr(model, "bind_tools")):
            raise ModelError(f"{type(model).__name__} is no chat model; a model is: {_KNOWN}")
        return model
    offline, _, settings = model.partition("?")
    if offline in OFFLINE:
        return OFFLINE[offline](settings)
    provider, _, name = model.partition(":")
    if not name:
        raise ModelError(f"there is no model {model!r}; a model is: {_KNOWN}")
    return _from_langchain(provider, name)


def _from_langchain(provider: str, name: str) -> BaseChatModel:
    package = f"mcp-agent-workbench[{_EXTRAS[provider]}]" if provider in _EXTRAS else f"langchain-{provider}"
    also = f" (or: pip install langchain langchain-{provider})" if provider in _EXTRAS else ""
    install = f'pip install "{package}"{also}'
    try:
        from langchain.chat_models import init_chat_model

        # With a base URL set, ChatOpenAI does not ask for usage when it streams, unless told to (shared/cases, P39).
        extra: dict[str, Any] = {"stream_usage": True} if provider in ("openai", "azure_openai") else {}
        made: BaseChatModel = init_chat_model(name, model_provider=provider, **extra)
    except ImportError:
        raise ModelError(f"{provider}:{name} needs a package that is not installed: {install}") from None
    except ValueError as error:
        raise ModelError(
            f"{provider}:{name} is not known to LangChain: {_first_line(error)} A model is: {_KNOWN}"
        ) from None
    except Exception as error:
        # Each provider's package raises its own kind for a missing key.
        key = f"Set {provider.upper()}_API_KEY if it is not set." if provider in _KEYED else "Is its API key set?"
        raise ModelError(f"{provider}:{name} could not be made. {key} It said: {_first_line(error)}") from None
    return made


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].split("(Background on this error")[0].strip()


def model_name(model: BaseChatModel) -> str:
    """The model's own name, for the trace."""
    for attribute in ("model_name", "model", "model_id", "name"):
        if isinstance(value := getattr(model, attribute, None), str) and value:
            return value
    return model._llm_type


def provider(model: BaseChatModel) -> str | None:
    """LangChain's word for who answers: `openai`, `anthropic`."""
    try:
        return str(model._get_ls_params().get("ls_provider") or "") or None
    except Exception:  # a model that is no BaseChatModel, or whose own version of this wants more
        return None


class Abilities(NamedTuple):
    """What a model takes, as far as its LangChain profile says (`model.profile`, from models.dev)."""

    takes: frozenset[str]
    """`image`, `audio`."""
    window: int | None
    """Input tokens; `None` is unknown, and then nothing is held to be too long."""
    rule: pictures.Rule


def abilities(model: BaseChatModel) -> Abilities:
    """What is known of the model; without a profile it takes text only. Give one: `ChatOllama(..., profile={...})`."""
    profile: Any = getattr(model, "profile", None)
    profile = profile if isinstance(profile, dict) else {}
    takes = frozenset(kind for kind in ("image", "audio") if profile.get(f"{kind}_inputs") is True)
    window = profile.get("max_input_tokens")
    known = window if isinstance(window, int) and window > 0 else None
    return Abilities(takes, known, pictures.rule(provider(model) or "", model_name(model)))


def usage_of(message: AIMessage) -> Usage | None:
    """What the provider reported with a reply; `None` when it reported nothing."""
    raw: Any = message.usage_metadata
    if not raw:
        return None
    details = raw.get("input_token_details") or {}
    return Usage(
        # No request has 0 input tokens: LangChain fills that in where a gateway to Anthropic leaves the figure out.
        input_tokens=raw.get("input_tokens") or None,
        output_tokens=raw.get("output_tokens"),
        cached_tokens=details.get("cache_read"),
    )


def bind(model: BaseChatModel, tools: Sequence[Any]) -> Any:
    """The model with tools, asking for usage figures where it has to be asked."""
    try:
        bound = model.bind_tools(list(tools)) if tools else model
    except NotImplementedError:
        raise ModelError(
            f"{model_name(model)} takes no tools, so it cannot read resources; use a model that does"
        ) from None
    asks = getattr(model, "stream_usage", None) is None and "stream_usage" in type(model).model_fields
    return bound.bind(stream_usage=True) if asks else bound


def seeded(model: BaseChatModel, seed: int) -> BaseChatModel:
    """The model with a seed for what it draws, where it takes one: the demo model's misses, a provider's sampling."""
    if callable(own := getattr(model, "seeded", None)):
        return cast("BaseChatModel", own(seed))
    return model.model_copy(update={"seed": seed % 2**31}) if "seed" in type(model).model_fields else model


class Limited(NamedTuple):
    """A model that is to answer in so many tokens, and whether it sees to that itself."""

    model: Any
    by_model: bool


def limited(model: BaseChatModel, most: int | None) -> Limited:
    """The model, asked for at most so many output tokens in its provider's own word for that."""
    fields = type(model).model_fields
    known = next((name for name in ("max_tokens", "max_output_tokens", "num_predict") if name in fields), None)
    bound = bind(model, ())
    return Limited(bound.bind(**{known: most}) if known and most else bound, bool(known and most))


def was_cut(message: AIMessage | None) -> bool:
    """Whether the provider says that the reply ended at the limit of its length."""
    said = message.response_metadata if message is not None else {}
    return any(
        said.get(key) in ("length", "max_tokens", "MAX_TOKENS")
        for key in ("finish_reason", "stop_reason", "done_reason")
    )


def provider_error(name: str, error: Exception) -> ModelError:
    """The provider's refusal in one line: status and its own words."""
    status = getattr(error, "status_code", None)
    text = " ".join(str(getattr(error, "message", None) or error).split())
    advice = {
        400: "The request itself was refused.", 401: "Check the API key.", 404: "Check the model's name.",
        429: "Too many requests, or the quota is used up: wait and ask again.",
        529: "The provider is overloaded: ask again later.",
    }.get(status if isinstance(status, int) else 0, "")  # fmt: skip
    found = text.rstrip(".") or type(error).__name__
    return ModelError(f"{name} failed{f' with status {status}' if status else ''}: {found}. {advice}".strip())
