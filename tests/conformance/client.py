"""The client under test of the official suite: `python -m tests.conformance.client URL`, started once a scenario.

It does what a user of the workbench does: connects, and lets a model call each of the server's tools.
"""

from __future__ import annotations

import sys

from workbench import Session


def main(url: str) -> None:
    """Raises what connecting raises; the suite takes the exit status."""
    with Session(on_request=lambda request: True) as wb:  # a form is sent with its defaults
        for tool in wb.connect("suite", url=url, timeout=10).tools:
            # Not above: most scenarios end before they have listed a tool, and this costs a second.
            from tests.servers.script import Call, Reply
            from tests.servers.scripted import Scripted

            arguments = dict.fromkeys(tool.schema.get("properties", {}), 5)
            call = Call(id="call", name=f"suite__{tool.name}", args=arguments)
            wb.ask("go", model=Scripted(replies=[Reply(calls=(call,)), Reply(text="done")]), approve="all", new=True)


if __name__ == "__main__":
    main(sys.argv[1])
