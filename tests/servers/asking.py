"""A server that asks back: for forms, for a page to be opened, for a model's answer. Over stdio, or with `--http` over HTTP.

python asking.py [--http]
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as in workbench/demo/__main__.py

import mcp.types as t  # noqa: E402
from mcp.server.fastmcp import Context, FastMCP  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

from workbench.demo.server import http_app, serve  # noqa: E402

server = FastMCP("asking", log_level="WARNING")


class Trip(BaseModel):
    city: str = Field(description="Where to?", min_length=2)
    days: int = Field(ge=1, le=30, default=3)
    window: bool = Field(title="A seat at the window", default=False)


@server.tool()
async def book(ctx: Context, wait: float = 0) -> str:
    """Asks for a city; `wait` seconds after the answer it is done."""
    answer = await ctx.elicit("Book a trip", Trip)
    await asyncio.sleep(wait)
    return f"{answer.action} {answer.data.model_dump_json() if answer.action == 'accept' else ''}".strip()


@server.resource("trip://next")
async def next_trip() -> str:
    answer = await server.get_context().elicit("Which trip?", Trip)
    return f"{answer.action} {answer.data.city if answer.action == 'accept' else ''}".strip()


@server.tool()
async def raw_form(schema: dict[str, Any], ctx: Context, message: str = "raw") -> str:
    """Sends this schema as it is."""
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return answer.model_dump_json(exclude_none=True)


@server.tool()
async def page(ctx: Context, url: str = "https://pay.example/cart?id=7") -> str:
    """Asks for a page to be opened."""
    answer = await ctx.session.elicit_url("Pay first", url, "e-1", related_request_id=ctx.request_id)
    return answer.action


@server.tool()
async def think(ctx: Context, about: str = "the sea", times: int = 1, limit: int = 50, picture: bool = False) -> str:
    """Has the client's model answer, `times` at once."""
    said = [t.SamplingMessage(role="user", content=t.TextContent(type="text", text=f"A line on {about}"))]
    if picture:
        image = t.ImageContent(type="image", data="iVBORw0KGgo=", mimeType="image/png")
        secret = t.TextContent(type="text", text="psst", annotations=t.Annotations(audience=["user"]))
        said.append(t.SamplingMessage(role="assistant", content=[image, secret]))
    wish = t.ModelPreferences(hints=[t.ModelHint(name="opus")], speedPriority=0.5)
    one = [
        ctx.session.create_message(
            said, max_tokens=limit, system_prompt="Be brief.", model_preferences=wish, related_request_id=ctx.request_id
        )
        for _ in range(times)
    ]
    results = await asyncio.gather(*one, return_exceptions=True)
    return "; ".join(
        str(r) if isinstance(r, BaseException) else f"{r.model}: {r.content.text} ({r.stopReason})" for r in results
    )  # type: ignore[union-attr]


@server.tool()
async def many(ctx: Context, times: int) -> str:
    """Asks again and again, or several times at once with a negative number."""

    async def ask() -> Any:
        try:
            return await ctx.session.elicit_form("again", {"type": "object"}, related_request_id=ctx.request_id)
        except Exception as error:
            return error

    got = await asyncio.gather(*(ask() for _ in range(-times))) if times < 0 else [await ask() for _ in range(times)]
    return "; ".join(str(x) if isinstance(x, BaseException) else x.action for x in got)


outcome: list[str] = []


@server.tool()
async def later(ctx: Context) -> str:
    """Asks when the call is over; what was answered is the resource `trip://outcome`."""

    async def ask() -> None:
        answer = await session.elicit_form("Still there?", Trip.model_json_schema())
        outcome.append(f"{answer.action} {answer.content}")

    session = ctx.session
    outcome.append("asked")
    running.add(asyncio.ensure_future(ask()))
    return "soon"


running: set[asyncio.Future[None]] = set()


@server.resource("trip://outcome")
async def last_outcome() -> str:
    return outcome[-1] if outcome else "nothing yet"


@server.tool()
async def gives_up(ctx: Context) -> str:
    """Asks, and withdraws its question after 0.3 seconds, as the specification says: by a cancelled notification."""
    number = ctx.session._request_id
    asking = asyncio.ensure_future(ctx.elicit("Quick!", Trip))
    await asyncio.sleep(0.3)
    gone = t.CancelledNotification(params=t.CancelledNotificationParams(requestId=number, reason="too late"))
    await ctx.session.send_notification(t.ServerNotification(gone), related_request_id=ctx.request_id)
    try:
        return (await asking).action
    except Exception as error:
        return f"withdrawn: {error}"


if __name__ == "__main__":
    if "--http" in sys.argv:
        serve(http_app(server._mcp_server), 0)
    else:
        server.run()
