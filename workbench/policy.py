"""Host policies: which resources every turn carries, in a small TOML file that a project can keep.

    [[always]]
    carry = "docs://style-guide"       # a URI, a resource's name, or either with * in it
    server = "demo"                    # of this server only; left out: of any
    refresh = "once"                   # once, turn or notify
    why = "engineering sessions"

"The determinism belongs to the host's policy" (seed "Application-controlled resources and model-controlled tools").
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from .content import Offer, Resource, for_people
from .errors import UsageError
from .turn import Refresh

__all__ = ["FILE", "Rule", "load", "matching", "parse", "save"]

FILE = "mcp-policy.toml"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What is carried: a URI, a resource's name, or either with `*` for any run of characters."""

    carry: str
    server: str | None = None
    refresh: Refresh = "once"
    why: str = ""

    def __post_init__(self) -> None:
        if self.refresh not in get_args(Refresh):
            raise UsageError(f"refresh = {self.refresh!r} is not known; it is {', '.join(get_args(Refresh))}")

    def __str__(self) -> str:
        about = "".join([f" of {self.server}" if self.server else "", f" ({self.why})" if self.why else ""])
        return f"every turn carries {self.carry}{about}"

    def covers(self, resource: Resource) -> bool:
        """Whether it is meant: by its URI, name or title, as written, with `*` for anything."""
        if self.server not in (None, resource.server):
            return False
        glob = re.compile(".*".join(map(re.escape, self.carry.split("*"))), re.DOTALL)
        return any(glob.fullmatch(text) for text in (resource.uri, resource.name, resource.title or ""))


def parse(text: str, *, server: str | None = None, refresh: Refresh = "once") -> list[Rule]:
    """Rules from plain words: `engineering sessions carry style-guide` and `docs://*`, several with commas or "and"."""
    why, carries, what = (
        re.split(r"\s+(carry|carries)\s+", text.strip(), maxsplit=1) if _CARRIES.search(text) else ("", "", text)
    )
    wanted = [each.strip() for each in re.split(r",\s+|\s+and\s+", what) if each.strip()] if carries else [text.strip()]
    if not all(wanted) or not wanted:
        raise UsageError("say what is carried: %mcp policy docs://style-guide --always")
    return [Rule(carry=each, server=server, refresh=refresh, why=why.strip()) for each in wanted]


_CARRIES = re.compile(r"\S\s+(?:carry|carries)\s+\S")


def matching(rules: Sequence[Rule], offer: Offer) -> list[tuple[Rule, str, str]]:
    """Each rule with the server and URI of what it covers just now; what is for people only is left out."""
    return [(rule, server, uri) for rule in rules for server, uri in _covered(rule, offer)]


def _covered(rule: Rule, offer: Offer) -> list[tuple[str, str]]:
    """A record behind a template is listed nowhere: a rule names it by its URI, `crm://customer/4471/subscription`."""
    listed = [(each.server, each.uri) for each in offer.resources if rule.covers(each) and not for_people(each)]
    if listed or "*" in rule.carry:
        return listed
    fitting = [each for each in offer.templates if each.matches(rule.carry) and not for_people(each)]
    return list(dict.fromkeys((each.server, rule.carry) for each in fitting if rule.server in (None, each.server)))


def load(path: str | Path) -> list[Rule]:
    """The rules of a file. Raises `UsageError` that names the file, the entry and what is wrong with it."""
    path = Path(path)
    try:
        found: Any = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no policy file {path}; %mcp policy --save {path} writes one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} could not be read as TOML: {error}") from None
    entries = found.get("always", [])
    if unknown := sorted(found.keys() - {"always"}):
        raise UsageError(f"{path} has {', '.join(unknown)}, which is not known; it has [[always]] entries")
    if not isinstance(entries, list):
        raise UsageError(f"{path}: always is no list of tables; write [[always]]")
    return [_rule(path, number, entry) for number, entry in enumerate(entries, 1)]


def _rule(path: Path, number: int, entry: Any) -> Rule:
    known = {field.name for field in fields(Rule)}
    where = f"{path}, [[always]] number {number}"
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise UsageError(f"{where}: it is a table of texts: carry, and if wanted server, refresh and why")
    if unknown := sorted(entry.keys() - known):
        raise UsageError(f"{where}: {', '.join(unknown)} is not known; known are {', '.join(sorted(known))}")
    if not entry.get("carry"):
        raise UsageError(f"{where}: it needs carry = a URI, a name, or either with *")
    try:
        return Rule(**entry)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def save(path: str | Path, rules: Sequence[Rule]) -> None:
    """Write the rules; what else stands in the file, comments included, stays. Raises `UsageError` where it cannot."""
    import tomlkit

    path = Path(path)
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        document = tomlkit.parse(text)
        always = tomlkit.aot()
        for rule in rules:
            table = tomlkit.table()
            for name in ("carry", "server", "refresh", "why"):
                if value := getattr(rule, name):
                    table.add(name, value)
            always.append(table)
        document.pop("always", None)
        if rules:
            document["always"] = always
        path.write_text(tomlkit.dumps(document), "utf-8")
    except (OSError, ValueError) as error:  # tomlkit's errors are ValueErrors
        raise UsageError(f"{path} could not be written: {error}") from None
