"""Images and sounds as a model that takes them gets them: one stated rule for what is sent, each provider's own for what
it costs.

An image is sent as it is when it is PNG, JPEG, GIF or WebP within 1568 pixels on its longer edge and 3.75 MB; otherwise it is
scaled down to that edge (the size above which Anthropic scales it anyway, and within OpenAI's) and sent as PNG, or as JPEG
where the PNG is still too large. Needs Pillow, of the `media` extra.
"""

from __future__ import annotations

import io
import math
import wave
from typing import Literal, NamedTuple

__all__ = ["Block", "Rule", "Size", "audio", "cost", "image", "pixels", "rule"]

LONGEST_EDGE = 1568
LARGEST = 3_750_000  # bytes; 5 MB as base64, the least that a large provider takes
_MOST_PIXELS = 80_000_000  # beyond it an image is not opened: it would fill the memory
_AS_IT_IS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_SOUNDS = {  # what providers take, under the names that LangChain hands on to them
    "audio/wav": "audio/wav", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/vnd.wave": "audio/wav",
    "audio/mpeg": "audio/mp3", "audio/mp3": "audio/mp3",
}  # fmt: skip


class Size(NamedTuple):
    """What an image or a sound is counted by; `None` is unknown."""

    kind: Literal["image", "audio"]
    width: int | None = None
    height: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        if self.kind == "image":
            return f"{self.width} x {self.height} pixels"
        return f"{self.seconds:.1f} s" if self.seconds is not None else "length unknown"


class Block(NamedTuple):
    """An image or a sound, ready to be sent."""

    size: Size
    mime: str
    data: bytes
    note: str | None = None
    """What was done to it."""


def pixels(data: bytes) -> tuple[int, int]:
    """Width and height from the header; raises `ImportError` without Pillow, `ValueError` where it is no image."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as opened:
            return opened.size
    except Exception as error:  # Pillow raises whatever a broken file makes of its parsers
        raise ValueError(f"not an image that can be opened ({type(error).__name__})") from None


def image(data: bytes) -> Block:
    """The image as it is sent. Raises `ImportError` without Pillow, `ValueError` saying why it cannot be sent."""
    from PIL import Image, ImageOps

    width, height = pixels(data)
    if width * height > _MOST_PIXELS:
        raise ValueError(f"{width} x {height} pixels are too many to be scaled")
    try:
        with Image.open(io.BytesIO(data)) as opened:
            mime = _AS_IT_IS.get(opened.format or "")
            if mime and max(width, height) <= LONGEST_EDGE and len(data) <= LARGEST:
                opened.load()  # a file that was cut would be refused by the provider, with the whole request
                return Block(Size("image", width, height), mime, data)
            scaled = ImageOps.exif_transpose(opened).convert("RGBA" if opened.has_transparency_data else "RGB")
    except Exception as error:
        raise ValueError(f"cannot be decoded ({type(error).__name__})") from None
    scaled.thumbnail((LONGEST_EDGE, LONGEST_EDGE))
    mime, sent = _encoded(scaled)
    size = Size("image", *scaled.size)
    return Block(size, mime, sent, f"an image of {width} x {height} pixels, sent as {mime} of {size}")


def _encoded(picture: object) -> tuple[str, bytes]:
    from PIL.Image import Image

    assert isinstance(picture, Image)
    out = io.BytesIO()
    picture.save(out, "PNG")
    if out.tell() <= LARGEST:
        return "image/png", out.getvalue()
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=85)
    return "image/jpeg", out.getvalue()


def audio(data: bytes, mime: str) -> Block:
    """The sound as it is sent; raises `ValueError` for a type that providers do not take."""
    if mime not in _SOUNDS:
        raise ValueError("models take WAV and MP3 only")
    seconds = _seconds(data) if _SOUNDS[mime] == "audio/wav" else None
    return Block(Size("audio", seconds=seconds), _SOUNDS[mime], data)


def _seconds(data: bytes) -> float | None:
    try:
        with wave.open(io.BytesIO(data)) as opened:
            return float(opened.getnframes() / opened.getframerate())
    except (wave.Error, EOFError, ZeroDivisionError):
        return None


# -- what they cost


class Rule(NamedTuple):
    """A provider's published way to count an image, by name: tiles of 512 pixels, or pixels a token."""

    name: str
    base: int = 0
    tile: int | None = None
    """Tokens a tile; `None`: 750 pixels a token."""
    sound: float | None = None
    """Tokens a second of sound; `None` is not published."""


_OPENAI = {  # "Images and vision", OpenAI: base and tile tokens by family; the others cost as gpt-4o does
    "gpt-4o-mini": (2833, 5667), "gpt-5": (70, 140), "o1": (75, 150), "o3": (75, 150),
}  # fmt: skip


def rule(provider: str, model: str) -> Rule:
    """How `model` of `provider` (LangChain's name for it) counts an image: an estimate with a name.

    OpenAI: within 2048 x 2048, then the shorter edge to 768, a base and so much a tile of 512 x 512; a tenth of a second
    of sound is a token. Anthropic: width x height / 750, which also stands for everybody whose rule is not known here.
    """
    if provider in ("openai", "azure", "azure_openai"):
        family = max((name for name in _OPENAI if model.startswith(name)), key=len, default="")
        base, tile = _OPENAI.get(family, (85, 170))
        return Rule(f"images by OpenAI's {base} + {tile} a tile", base, tile, 10.0)
    return Rule(
        "images by Anthropic's pixels / 750" + ("" if provider == "anthropic" else ", no rule known for this model")
    )


def cost(block: Size, by: Rule) -> int | None:
    """Tokens of a block of that size; `None` where nobody says."""
    if block.kind == "audio":
        return None if block.seconds is None or by.sound is None else math.ceil(block.seconds * by.sound)
    if block.width is None or block.height is None:
        return None
    if by.tile is None:
        return math.ceil(block.width * block.height / 750)
    scale = min(1.0, 2048 / max(block.width, block.height))
    scale *= min(1.0, 768 / (min(block.width, block.height) * scale))
    across, down = (math.ceil(round(edge * scale) / 512) for edge in (block.width, block.height))
    return by.base + by.tile * across * down
