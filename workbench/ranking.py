"""Words and ranks of texts: what a search of the catalog and the demo model know about language.

Ranks are BM25 (Lucene's variant, by `bm25s`). Whether a text matches at all can be decided by the share of the question's
words that it holds, because a BM25 score means nothing outside its own collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

__all__ = ["Index", "index", "share", "telling", "words"]

# Words that carry no subject: grammar, question words, and the verbs with which people address an assistant.
_STOPWORDS = """
    a about after again all also am an and any are as at be because been before being but by can could did do does
    doing done for from had has have having he her here hers him his how i if in into is it its itself just let like may
    me mean means might more most must my no nor not now of off ok on once one only or other our ours out over own per
    please same shall she should so some still such than thank thanks that the their them then there these they this
    those to too under until up us very was we were what when where whether which while who whom whose why will with
    would yes you your yours yourself
    answer ask explain find get give hello help hi know list look need open read say see show summarise summarize tell
    think use using want write
"""
STOPWORDS = frozenset(_STOPWORDS.split())
ENDINGS = {"ies": "y", "sses": "ss", "ches": "ch", "xes": "x", "ing": "", "ed": "", "ss": "ss", "us": "us", "s": ""}


def telling(text: str) -> list[str]:
    """The words of a text in their order, without stopwords; `net_amt` and `style-guide` are two words each."""
    return [word for word in re.findall(r"[^\W_]+", text.lower()) if word not in STOPWORDS]


def words(text: str) -> list[str]:
    """The same, stemmed."""
    return [_stem(word) for word in telling(text)]


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """A light stem, under which `prices`, `priced`, `pricing` and `price` meet; at least three letters stay."""
    for ending, instead in ENDINGS.items():
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending) + instead
            if ending in ("ing", "ed") and len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def share(question: Iterable[str], found: Iterable[str]) -> float:
    """How much of the question's distinct words is among `found`, 0 to 1; 0 for a question without any."""
    asked = set(question)
    return len(asked.intersection(found)) / len(asked) if asked else 0.0


class Index:
    """Texts ready to be ranked."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s
        import numpy

        self.words = [words(text) for text in texts]
        self._numpy, self._ranker = numpy, None
        if any(self.words):  # bm25s cannot index a collection without a single word
            self._ranker = bm25s.BM25()
            self._ranker.index(self.words, show_progress=False)

    def best(self, question: Iterable[str], most: int, among: Sequence[bool] | None = None) -> tuple[list[int], int]:
        """Positions of the best so many texts, the best first, and how many hold a word of the question at all."""
        unique = list(dict.fromkeys(question))
        if self._ranker is None or not unique:
            return [], 0
        scores = self._ranker.get_scores(unique)
        if among is not None:
            scores = scores * self._numpy.asarray(among)
        matching = int(self._numpy.count_nonzero(scores > 0))
        most = min(most, matching)
        if not most:
            return [], 0
        places = self._numpy.argpartition(-scores, most - 1)[:most]
        return [int(place) for place in places[self._numpy.lexsort((places, -scores[places]))]], matching

    def cover(self, question: Iterable[str], most: int = 1, worth: float = 0.0) -> list[int]:
        """Positions of at most so many texts that together match best, none where no word of the question occurs.

        The first is the best by BM25. Each further one is judged by what it says better than those before it do, word
        by word, so that every part of a question gets its own; it must be `worth` that part of the first one's score.
        """
        unique = list(dict.fromkeys(question))
        if self._ranker is None or not unique:
            return []
        scores = self._numpy.stack([self._ranker.get_scores([word]) for word in unique])
        said, floor = self._numpy.zeros((len(unique), 1)), 0.0
        found: list[int] = []
        while len(found) < most:
            gains = self._numpy.maximum(scores - said, 0).sum(axis=0)
            place = int(gains.argmax())
            if gains[place] <= floor:
                break
            floor = floor or float(gains[place]) * worth
            found.append(place)
            said = self._numpy.maximum(said, scores[:, [place]])
        return found


@lru_cache(maxsize=8)
def index(texts: tuple[str, ...]) -> Index:
    """The same as `Index`, kept: an agent asks about one catalog at every step of a turn."""
    return Index(texts)
