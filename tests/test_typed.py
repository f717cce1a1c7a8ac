"""Answering servers in a real kernel: by typing, by `%mcp answer`, from a subshell; and refused in a batch run."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from tests.servers import HERE
from workbench import Session

ROOT = Path(__file__).parent.parent
CONNECT = f"""\
import os, sys
os.environ["PYTHONPATH"] = {str(ROOT)!r}
%load_ext workbench
%mcp connect s --env PYTHONPATH -- python {HERE / "asking.py"}
sys.path.insert(0, {str(ROOT)!r})
import workbench
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
wb = workbench.session()
def calls(tool, *more):
    wb.model = Scripted(replies=[Reply(calls=(Call(id="1", name="s__" + tool),)), *more, Reply(text="done")])"""


class Front:
    """A front end that lets a person type: no page, so no widget, but `input()`."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client

    def run(self, code: str, *typed: str) -> str:
        """What a cell shows, with the prompts; every line of `typed` answers one of them."""
        shown: list[str] = []
        answers = list(typed)

        def ask(message: dict[str, Any]) -> None:
            shown.append(f"? {message['content']['prompt']}")
            self.client.input(answers.pop(0))

        self.client.execute_interactive(
            code, allow_stdin=True, stdin_hook=ask, output_hook=lambda m: shown.append(said(m)), timeout=30
        )
        assert answers == []
        return "\n".join(shown)

    def shown_for(self, message: str, last: str) -> str:
        """What a cell shows that was started by `execute`, up to an output that holds `last`."""
        shown: list[str] = []
        deadline = time.monotonic() + 30
        while not any(last in text for text in shown):
            assert time.monotonic() < deadline, shown
            try:
                heard = self.client.get_iopub_msg(timeout=0.5)
            except queue.Empty:
                continue
            if heard["parent_header"].get("msg_id") == message:
                shown.append(said(heard))
        return "\n".join(shown)


def said(message: dict[str, Any]) -> str:
    content = message["content"]
    return str(content.get("text") or content.get("data", {}).get("text/plain", "")) + "".join(
        content.get("traceback", ())
    )


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    manager, client = start_new_kernel(kernel_name="python3")
    made = Front(client)
    made.run(CONNECT)
    yield made
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_form_is_filled_in_by_typing_while_a_magic_blocks(front: Front) -> None:
    out = front.run("%mcp read trip://next", "x", "a", "R", "Rome", "0", "5", "")
    assert "the server s asks you to fill in a form" in out
    assert "no password" in out
    assert "1. city = City: Where to? (required; at least 2 characters)" in out
    assert "City: 'R' is too short" in out
    assert "Days: 0 is less than the minimum of 1" in out
    assert "accept Rome" in out
    assert "decline" in front.run("%mcp read trip://next", "d")


def test_a_sample_is_looked_through_and_allowed_by_typing(front: Front) -> None:
    out = front.run("calls('think', Reply(text='waves')); print(wb.ask('x', approve='all').messages[2].content)", "y")
    assert "asks for your model's answer, at your expense, in at most 50 tokens" in out
    assert "A line on the sea" in out
    assert out.rstrip().endswith("scripted: waves (endTurn)")


def test_a_page_is_shown_with_its_host_and_not_opened(front: Front) -> None:
    out = front.run("calls('page'); print(wb.ask('x', approve='all').messages[2].content)", "c")
    assert "open a page of pay.example. Nothing has been opened" in out
    assert "https://pay.example/cart?id=7" in out
    assert out.rstrip().endswith("cancel")


def test_a_request_outside_a_turn_is_answered_by_the_magic(front: Front) -> None:
    front.run("calls('later'); wb.ask('x', approve='all')")
    waiting = front.run("import time\nwhile not wb.pending: time.sleep(0.01)\nprint(wb.pending[0].id)").strip()
    assert f"s waits for an answer to its request {waiting}: %mcp answer {waiting}" in front.run("%mcp")
    assert "Still there?" in front.run("%mcp answer")
    assert "FIELD=VALUE ..., --accept, --decline or --cancel" in front.run(f"%mcp answer {waiting}")
    assert f"waiting: {waiting}" in front.run("%mcp answer nothing")
    assert "Days: 99 is greater than the maximum of 30" in front.run(f"%mcp answer {waiting} city=Rome days=99")
    assert "wants NAME=VALUE" in front.run(f"%mcp answer {waiting} Rome")
    assert f"{waiting}: accept" in front.run(f"%mcp answer {waiting} city=Rome 2=7")
    front.run("while wb.pending: time.sleep(0.01)")
    assert "'days': 7" in front.run("%mcp read trip://outcome")
    assert "no server waits for an answer" in front.run("%mcp answer")


def test_a_turn_is_answered_from_a_subshell_while_its_cell_runs_and_a_second_cell_only_after_it(front: Front) -> None:
    """Cells of one notebook queue; JupyterLab's "New Subshell Console" is beside the queue (ipykernel 7)."""
    client = front.client
    front.run("calls('book')")
    agent = client.execute("%%agent --approve all\nhello", allow_stdin=True)
    front.shown_for(agent, "Trace object")
    second = client.execute("%mcp answer")
    client.control_channel.send(client.session.msg("create_subshell_request", {}))
    subshell = client.control_channel.get_msg(timeout=10)["content"]["subshell_id"]

    def beside(code: str) -> str:
        content = {"code": code, "silent": False, "allow_stdin": False}
        message = client.session.msg("execute_request", content)
        message["header"]["subshell_id"] = subshell
        client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    wait = "import time\nwhile not wb.pending: time.sleep(0.01)\nprint('waiting', wb.pending[0].id)"
    identity = front.shown_for(beside(wait), "waiting").split()[-1]
    assert f"{identity}: accept" in front.shown_for(beside(f"%mcp answer {identity} city=Bonn"), "accept")
    assert "a person took" in front.shown_for(agent, "Total:")
    assert "no server waits" in front.shown_for(second, "no server waits")


def test_nobody_can_answer_in_a_batch_run_and_the_trace_says_so() -> None:
    client = NotebookClient(nbformat.v4.new_notebook(), kernel_name="python3", timeout=60)
    with client.setup_kernel():
        sources = [CONNECT, "calls('book')", "%%agent --approve all\nhello", "%mcp read trip://next",
                   "calls('think'); print(wb.ask('x', approve='all').messages[2].content)", "%mcp log"]  # fmt: skip
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        client.nb.cells += cells
        for index, cell in enumerate(cells):
            client.execute_cell(cell, index)
    shown = ["\n".join(said({"content": output}) for output in cell.outputs) for cell in cells]
    assert "in a batch run nobody can answer" in shown[2]
    assert "refused" in shown[2]
    assert shown[3] == "decline"
    assert shown[4].strip() == "the request was rejected: in a batch run nobody can answer"
    assert "server s asked for a form" in shown[5]
    assert "host refused it (in a batch run nobody can answer)" in shown[5]


def test_an_interrupt_while_typing_ends_the_call_and_its_request() -> None:
    def interrupted() -> None:
        if wb.pending:
            raise KeyboardInterrupt

    with Session(on_request=lambda request: "wait") as wb:
        from tests.servers.asking import server

        wb.connect("s", server=server)
        wb.loop.idle = interrupted
        with pytest.raises(KeyboardInterrupt):
            wb.read("trip://next")
        wb.loop.idle = lambda: None
        deadline = time.monotonic() + 10
        while wb.pending:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not wb.loop.blocking
        assert [span.status for span in wb.spans if span.kind in ("read", "request")] == ["cancelled", "cancelled"]
        wb.on_request = lambda request: False
        assert wb.read("trip://next").parts[0].data == "decline"
