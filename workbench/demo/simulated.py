"""What is simulated for teaching: seconds that the demo model's calls take, and how often it makes none.

The seed "Application-controlled resources and model-controlled tools" gives the figures: "the first provider call takes
1.4 s to the stop reason, the CRM lookup takes 38 ms, and the second provider call takes 2.1 s", and the tool fired on
71 % of the turns that needed it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from urllib.parse import parse_qsl

from workbench.errors import ModelError

__all__ = ["Simulated", "parse"]

EXAMPLE = "demo?first=1.4&next=2.1&miss=0.29&seed=7"


@dataclass(frozen=True)
class Simulated:
    """Settings of the demo model; `str` writes those that are set as `parse` reads them. Raises `ModelError`."""

    first: float = 0.0
    """Seconds of a provider call that ends in a tool call: the one that a turn could have done without."""
    next: float = 0.0
    """Seconds of a provider call that answers. It is a turn's only one where the content is there already."""
    miss: float = 0.0
    """On what part of the turns that need a tool call none is made, 0 to 1."""
    seed: int = 0
    """Another seed misses on other questions."""

    def __post_init__(self) -> None:
        for name in ("first", "next"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise _wrong(f"{name}={seconds:g} is no number of seconds from 0 on")
        if not 0 <= self.miss <= 1:
            raise _wrong(f"miss={self.miss:g} is no part of the turns, from 0 (none) to 1 (all)")

    def __str__(self) -> str:
        told = {each.name: str(getattr(self, each.name)).removesuffix(".0") for each in fields(self)}
        settings = "&".join(f"{name}={value}" for name, value in told.items() if value != "0")
        return settings and f"?{settings}"

    def misses(self, questions: Sequence[str]) -> bool:
        """Whether the turn of the last of these questions of one conversation makes no call.

        Drawn from the seed and the questions alone, so every pattern meets the same draw, and a higher `miss` only adds.
        """
        drawn = sha256(json.dumps([self.seed, *questions]).encode()).digest()
        return int.from_bytes(drawn[:6]) < self.miss * 256**6


def parse(text: str) -> Simulated:
    """From `first=1.4&next=2.1&miss=0.29&seed=7`, each of which may be left out. Raises `ModelError`."""
    given: dict[str, float | int] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name not in {each.name for each in fields(Simulated)}:
            raise _wrong(f"there is no setting {name!r}")
        if name in given:
            raise _wrong(f"{name} is given twice")
        try:
            given[name] = int(value) if name == "seed" else float(value)
        except ValueError:
            raise _wrong(f"{name}={value} is no {'whole ' if name == 'seed' else ''}number") from None
    return Simulated(**given)  # type: ignore[arg-type]


def _wrong(what: str) -> ModelError:
    return ModelError(
        f"the demo model cannot be set so: {what}. Its settings are first (seconds of a call that ends in a tool call), "
        f"next (seconds of a call that answers), miss (0 to 1) and seed (a whole number), as in {EXAMPLE}"
    )
