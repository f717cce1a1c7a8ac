"""The magics in a real kernel, headless as in a batch run (nbclient), and what the saved notebook then holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.servers import awkward

ROOT = Path(__file__).parent.parent
AWKWARD = " ".join(awkward())
QUESTION = "Which products does the SUM ABAP test matrix cover, and in what output format?"


class Kernel:
    """A notebook that is written and run cell by cell."""

    def __init__(self, client: NotebookClient) -> None:
        self.client, self.book = client, client.nb

    def run(self, source: str) -> list[Any]:
        """The outputs of a new cell; raises `CellExecutionError`."""
        cell = nbformat.v4.new_code_cell(source)
        self.book.cells.append(cell)
        self.client.execute_cell(cell, len(self.book.cells) - 1)
        return list(cell.outputs)

    def text(self, source: str) -> str:
        """What a new cell shows, as text."""
        outputs = self.run(source)
        return "\n".join(str(o.get("text") or o.get("data", {}).get("text/plain", "")) for o in outputs)

    def fails(self, source: str) -> str:
        """The error output of a cell that must fail, as the reader sees it."""
        with pytest.raises(CellExecutionError):
            self.run(source)
        (error,) = [o for o in self.book.cells[-1].outputs if o.output_type == "error"]
        return "\n".join(error.traceback)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    client = NotebookClient(
        nbformat.v4.new_notebook(), kernel_name="python3", timeout=60, resources={"metadata": {"path": str(ROOT)}}
    )
    with client.setup_kernel():
        made = Kernel(client)
        made.run("%load_ext workbench")
        yield made


def test_the_first_turn_of_the_readme(kernel: Kernel) -> None:
    assert "8 resources, 1 template, 2 prompts, 2 tools" in kernel.text("%mcp connect demo")
    (catalog,) = kernel.run("%mcp resources")
    assert set(catalog.data) == {"text/html", "text/plain"}
    assert "9 of 9 entries" in catalog.data["text/plain"]
    assert "sap-btp://sum-abap-v1" in catalog.data["text/html"]
    (turn,) = kernel.run(f"%%agent --model demo --new\n{QUESTION}")
    assert set(turn.data) == {"text/html", "text/plain"}
    for shown in turn.data.values():
        assert "S/4HANA 2023" in shown
        assert "JSON Lines" in shown
        assert "provider call 1 demo" in shown
        assert "read sap-btp://sum-abap-v1" in shown
        assert "tiktoken o200k_base" in shown
        assert "the provider reported no tokens" in shown
    assert "demo: connected over stdio" in kernel.text("%mcp")


def test_the_session_of_the_magics_is_the_scripts(kernel: Kernel) -> None:
    kernel.run("import workbench; wb = workbench.session()")
    assert "True" in kernel.text(
        "wb.turns[-1].composition.input_tokens.sum() == wb.turns[-1].totals.input_tokens_estimated"
    )
    assert "model" in kernel.text("wb.turns[-1].reads().actor.tolist()")


def test_attach_and_detach_by_magic(kernel: Kernel) -> None:
    kernel.run("%mcp connect demo")
    assert "attached docs://style-guide" in kernel.text("%mcp attach docs://style-guide")
    assert "attached by the user: docs://style-guide" in kernel.text("%mcp status")
    assert "1 provider call" in kernel.text("%%agent --new\nHow are headings written?")
    assert "detached" in kernel.text("%mcp detach docs://style-guide")
    assert "is not attached" in kernel.fails("%mcp detach docs://style-guide")


def test_read_shows_text_and_says_what_it_leaves_out(kernel: Kernel) -> None:
    kernel.run(f"%mcp connect awkward -- {AWKWARD} --huge 100000")
    assert "a book" in kernel.text("%mcp read urn:isbn:123")
    assert "plan v2" in kernel.text("%mcp read 'file:///repo/My Docs/plan v2.md'")
    assert "80,000 of 100,000 characters are not shown" in kernel.text("%mcp read res://files/huge")
    assert "[Binary: application/pdf, could not be read" in kernel.text("%mcp read res://files/report")
    assert "not valid utf-8" in kernel.text("%mcp read res://files/latin1")
    parts = kernel.text("%mcp read res://dir/")
    assert parts.index("a.txt") < parts.index("part A") < parts.index("b.txt") < parts.index("c.png")


def test_options_may_stand_before_between_and_after(kernel: Kernel) -> None:
    assert "127.0.0.1:9" in kernel.fails("%mcp connect x --timeout 5 http://127.0.0.1:9/mcp --header A:b")


def test_a_prompt_is_expanded_for_a_person(kernel: Kernel) -> None:
    kernel.run(f"%mcp connect awkward -- {AWKWARD}")
    assert "Review at most 3 lines:\nx y" in kernel.text("%mcp prompt review --server awkward 'code=x y' lines=3")
    assert "user:\nPing?\n\nassistant:\nPong." in kernel.text("%mcp prompt dialogue")
    assert "needs code" in kernel.fails("%mcp prompt review --server awkward lines=3")
    assert "wants NAME=VALUE" in kernel.fails("%mcp prompt review code")
    assert "nobody offers a prompt" in kernel.fails("%mcp prompt nothing")
    assert "user used prompt dialogue" in kernel.text("%mcp log")


def test_a_content_is_saved_to_a_file_by_magic(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%mcp connect demo")
    line = f"%mcp read file:///repo/architecture.png --save {tmp_path / 'a.png'}"
    assert "bytes)" in kernel.text(line)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    reads = "import workbench; len([span for span in workbench.session().spans if span.kind == 'read'])"
    before = kernel.text(reads)
    assert "is there already" in kernel.fails(line)
    assert "there is no folder" in kernel.fails(f"%mcp read docs://style-guide --save {tmp_path / 'no' / 'a.md'}")
    for folder in (tmp_path, f"{tmp_path}/", ".", "~"):
        assert "was not read" in (said := kernel.fails(f"%mcp read docs://style-guide --save {folder}"))
        assert "is a folder" in said
    assert "is no path" in kernel.fails("%mcp read docs://style-guide --save ~nobody-of-that-name/a.md")
    assert kernel.text(reads) == before


def test_braces_in_a_line_are_not_python(kernel: Kernel) -> None:
    """P11."""
    kernel.run("%mcp connect demo")
    assert "fill in id" in kernel.fails("%mcp read crm://customer/{id}/subscription")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%mcp nonsense", "%mcp has no 'nonsense'"),
        ("%mcp connect x", "to what?"),
        ("%mcp connect x -- no-such-command", "no command 'no-such-command'"),
        ("%mcp connect x ftp://host", "no http:// or https:// address"),
        ("%mcp connect x http://h --header nothing", "--header wants"),
        ("%mcp connect x http://h --header 'A: ${NOT_SET_HERE}'", "NOT_SET_HERE is not set"),
        ("%mcp connect x -- y --timeout", "no command 'y'"),
        (f"%mcp connect x -- {AWKWARD} --case die-on-start", "No module named 'acme_db'"),
        ("%mcp read nothing:here", "nobody offers 'nothing:here'"),
        ("%mcp read", "required: uri"),
        ("%mcp read 'unclosed", "cannot be taken apart"),
        ("%mcp disconnect nobody", "there is no connection 'nobody'"),
        ("%%agent --model gpt\nx", "there is no model 'gpt'"),
        ("%%agent --nonsense\nx", "--nonsense"),
        ("%%agent\n", "question is empty"),
        ("%%agent what is this?\nx", "The question goes below the line that begins with %%agent"),
        ("%mcp connect x python server.py", "A command goes behind --"),
        ("%mcp read search_tickets", "is a tool, not a resource"),
    ],
)
def test_a_wrong_line_fails_in_one_short_error_and_loses_nothing(kernel: Kernel, line: str, says: str) -> None:
    """P10, P35: batch runs fail, no frames are printed, whatever %xmode says."""
    kernel.run("%mcp connect demo")
    kernel.run("%xmode Verbose")
    before = kernel.text("len(workbench.session().turns), list(workbench.session().connections)")
    shown = kernel.fails(line)
    assert says in shown
    assert "Traceback (most recent" not in shown.replace("    Traceback (most recent call last):", "")
    assert len(shown.splitlines()) < 15
    assert kernel.text("len(workbench.session().turns), list(workbench.session().connections)") == before


def test_a_magic_is_no_coroutine_and_prints_help(kernel: Kernel) -> None:
    """P03."""
    assert kernel.text("get_ipython().run_line_magic('mcp', 'status') is None").endswith("True")
    overview = kernel.text("%mcp --help")
    assert "%mcp connect      Connect to a server: NAME -- COMMAND ARGS, or NAME URL." in overview
    assert "%mcp log " in overview
    for line, option in (("%mcp connect --help", "--header"), ("%%agent --help", "--approve")):
        shown = kernel.text(line)
        assert option in shown
        assert "::" not in shown


def test_a_servers_tool_is_refused_with_the_reason_in_a_batch_run(kernel: Kernel) -> None:
    kernel.run("%mcp connect demo")
    kernel.run(
        "from tests.servers.scripted import Scripted; from tests.servers.script import Call, Reply\n"
        "step = Reply(calls=(Call(id='1', name='demo__search_tickets', args={'query': 'invoice'}),))\n"
        "wb = workbench.session(); wb.model = Scripted(replies=[step, Reply(text='done')])"
    )
    shown = kernel.text("%%agent --new\ngo")
    kernel.run("wb.model = 'demo'")
    assert "refused" in shown
    assert "nobody is there to be asked" in shown


def test_a_secret_is_nowhere_in_the_saved_notebook(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """P35: planted in the environment and a header, then every way to show it."""
    kernel.run("import os; os.environ['AWKWARD_TOKEN'] = 'pl4nted-' + 's3cret'")
    kernel.fails(f"%mcp connect a --env AWKWARD_TOKEN -- {AWKWARD} --case die-on-start")
    kernel.fails("%mcp connect b http://127.0.0.1:9/mcp --timeout 5 --header 'Authorization: Bearer ${AWKWARD_TOKEN}'")
    kernel.run(f"%mcp connect awkward --env AWKWARD_TOKEN -- {AWKWARD}")
    kernel.run("workbench.session().connections['awkward'].target")
    kernel.run("workbench.session().connections['awkward'].target.env")
    kernel.run("%mcp logs awkward")
    kernel.run("%mcp log")
    assert "pl4nted-s3cret" not in nbformat.writes(kernel.book)


def test_hostile_text_is_escaped_in_every_output(kernel: Kernel) -> None:
    """P36."""
    kernel.run(f"%mcp connect awkward -- {AWKWARD}")
    kernel.run("%mcp resources")
    kernel.fails("%mcp read res://files/boom")
    kernel.run("%%agent --new\nDescription with markup?")
    for cell in kernel.book.cells:
        for output in cell.outputs:
            assert "<img src=x" not in output.get("data", {}).get("text/html", "")


def test_unload_closes_the_servers_and_load_starts_anew(kernel: Kernel) -> None:
    kernel.run("%mcp connect demo")
    pid = int(kernel.text("workbench.session().connections['demo'].pid").split()[-1])
    kernel.run("%unload_ext workbench")
    assert not Path(f"/proc/{pid}").exists() or sys.platform != "linux"
    with pytest.raises(CellExecutionError, match="not found"):
        kernel.run("%mcp status")
    kernel.run("%load_ext workbench")
    assert "no server is connected" in kernel.text("%mcp status")
    assert "no server is connected" in kernel.fails("%%agent\nhello?")


def test_logs_need_no_name_where_one_server_is_connected(kernel: Kernel) -> None:
    kernel.run("import workbench; wb = workbench.session()\nfor name in list(wb.connections): wb.disconnect(name)")
    assert "no server is connected" in kernel.fails("%mcp logs")
    kernel.run("%mcp connect demo")
    assert kernel.text("%mcp logs") == kernel.text("%mcp logs demo")
    kernel.run("%mcp connect 'the second' -- python -m workbench.demo")
    assert "%mcp logs demo or %mcp logs 'the second'" in kernel.fails("%mcp logs --lines 3")
    kernel.run("%mcp disconnect 'the second'")


# -- %replay


def test_a_replay_shows_rates_pictures_and_what_is_wrong(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%mcp connect demo")
    line = '{"id": "%s", "question": "What is the seat count of customer %s?", "relevant": ["crm://customer/%s/subscription"]}\n'
    (path := tmp_path / "my turns.jsonl").write_text("".join(line % (n, n, n) for n in (4471, 4480)) + "{\n")
    shown = kernel.text(f'%replay "{path}" --patterns catalog')
    assert "2 of 2 = 100.0 % (34.2 to 100.0)" in shown and "line 3 is left out: it is no JSON" in shown
    assert (tmp_path / "my turns.replay.sqlite").exists()
    assert "image/png" in kernel.book.cells[-1].outputs[1].data
    kernel.run("cases = [{'id': 'x', 'question': 'How are headings written?'}]")
    assert "1 case under 2 designs" in kernel.text("%replay cases")
    assert "none.jsonl cannot be read" in kernel.fails("%replay none.jsonl")
    assert "there is no pattern 'wizard'" in kernel.fails("%replay cases --patterns wizard")
    assert kernel.text("%replay --help").startswith("%replay [--patterns")
    assert "catalog" in kernel.text("import workbench; workbench.session().replays[-1].summary()")


def test_an_audit_log_is_written_verified_and_asked(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(f"%mcp connect demo\n%cd -q {tmp_path}")
    assert "no audit log is written; %mcp audit on begins one" in kernel.text("%mcp audit")
    assert kernel.text("%mcp audit on").startswith(f"writing {tmp_path}/mcp-audit/")
    kernel.run("%mcp read docs://style-guide")
    kernel.run(f"%%agent\n{QUESTION}")
    assert len(kernel.text("%mcp log docs://style-guide").splitlines()) == 1
    assert kernel.text("%mcp log --turn 1").splitlines()[0].startswith("user asked")
    assert "nothing of that has happened" in kernel.text("%mcp log x://other")
    assert "1 file" in kernel.text("%mcp audit verify")
    assert "no audit log is written" in kernel.text("%mcp audit off")
    said = kernel.text("%mcp log sap-btp://sum-abap-v1 --audit mcp-audit")
    assert time.strftime("%Y-%m-%d ", time.gmtime()) in said and "host allowed it (rule listed)" in said
    (file,) = (tmp_path / "mcp-audit").glob("*.jsonl")
    file.write_text(file.read_text().replace("docs://style-guide", "docs://style-guida"))
    assert "is not as it was written" in kernel.fails("%mcp audit verify")
    assert "there is no audit log in elsewhere; %mcp audit on elsewhere begins one" in kernel.fails(
        "%mcp audit verify elsewhere"
    )
