"""`python -m workbench.demo`: the bundled MCP server over stdio, or over HTTP on 127.0.0.1 for tests."""

from __future__ import annotations

import argparse
import math
import sys

# An optional extra of jsonschema, there wherever JupyterLab is: importing it builds the grammar of IRIs, 1.0 of the 1.5
# seconds of CPU that this process would need to start. jsonschema does without; no schema of ours has a format.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

from workbench.demo import server  # noqa: E402


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds from 0 on, as 0.038")
    return seconds


def main() -> None:
    """Parse the command line and serve until the input ends or the process is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m workbench.demo", description=__doc__)
    transport = parser.add_mutually_exclusive_group()
    transport.add_argument("--http", type=int, metavar="PORT", help="streamable HTTP at http://127.0.0.1:PORT/mcp")
    transport.add_argument("--sse", type=int, metavar="PORT", help="legacy SSE at http://127.0.0.1:PORT/sse")
    parser.add_argument("--delay", type=_seconds, default=0.0, metavar="SECONDS", help="wait so long before each read")
    options = parser.parse_args()
    demo = server.build(options.delay)
    if options.http is not None:
        server.serve(server.http_app(demo), options.http)
    elif options.sse is not None:
        server.serve(server.sse_app(demo), options.sse)
    else:
        server.serve_stdio(demo)


if __name__ == "__main__":
    main()
