"""The audit log: every line names who decided what; nothing is changed, lost or leaked unseen."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, log
from workbench.content import Part, digest, packed, unpacked
from workbench.errors import UsageError
from workbench.secret import Secret
from workbench.span import Span

QUESTION = "Which products does the SUM ABAP test matrix cover?"
MATRIX = "sap-btp://sum-abap-v1"


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session("demo") as made:
        made.connect("demo")
        yield made


def _span(number: int = 1, **changes: Any) -> Span:
    given: dict[str, Any] = {
        "id": f"read-{number}", "parent": None, "turn": None, "kind": "read", "name": f"x://{number}", "actor": "user",
        "started": 1.7e9, "seconds": 0.1, "status": "ok",
    }  # fmt: skip
    return Span(**given | changes)


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


# -- what a line says


def test_each_line_says_by_itself_why_a_record_was_in_the_context(wb: Session, tmp_path: Path) -> None:
    wb.audit(tmp_path)
    wb.policy("docs://style-guide")
    turn = wb.ask(QUESTION)
    wb.close()
    rows = [row for row in _lines(tmp_path) if row.get("status") == "ok"]
    (read,) = [row for row in rows if row["actor"] == "model"]
    span = next(span for span in turn.spans if span.kind == "read" and span.actor == "model")
    assert {key: read[key] for key in ("uri", "server", "turn", "rule", "decided_by")} == {
        "uri": MATRIX, "server": "demo", "turn": 1, "rule": "listed", "decided_by": None,
    }  # fmt: skip
    assert (read["bytes"], read["tokens"], read["counter"], read["sha256"]) == tuple(
        span.detail[key] for key in ("bytes", "tokens", "counter", "sha256")
    )
    assert (
        read["says"].startswith(f"model requested {MATRIX} at ")
        and "for turn 1; host allowed it (rule listed)" in read["says"]
    )
    assert read["time"].endswith("Z") and read["time"][:10] == time.strftime("%Y-%m-%d", time.gmtime())
    (attached,) = [row for row in rows if row["kind"] == "attach"]
    assert attached["says"].startswith("host attached docs://style-guide at ")
    assert "for turn 1 (rule policy: every turn carries docs://style-guide)" in attached["says"] and attached["sha256"]
    assert log.spans(tmp_path)[rows[0]["session"]] == wb.spans
    assert log.verify(tmp_path)


def test_what_happened_before_it_was_begun_is_in_it(wb: Session, tmp_path: Path) -> None:
    wb.read("docs://style-guide")
    wb.audit(tmp_path / "made" / "here")
    kinds = [row["kind"] for row in _lines(tmp_path / "made" / "here")]
    assert kinds == ["log", "connect", "read"]


def test_content_is_kept_by_its_hash_whatever_brought_it(wb: Session, tmp_path: Path) -> None:
    wb.audit(tmp_path)
    read = wb.read("file:///repo/architecture.png")
    search = Call(name="demo__search_tickets", args={"query": "invoice"}, id="1")
    wb.ask("Find the ticket", model=Scripted(replies=[Reply(calls=(search,)), Reply(text="T-1058")]), approve="all")
    expanded = wb.prompt("summarize_ticket", {"ticket_id": "T-1058"})
    wb.audit(None)
    rows = [row for row in _lines(tmp_path) if row.get("sha256")]
    assert {row["kind"] for row in rows} == {"read", "prompt", "tool"}
    for row in rows:
        kept = log.content(tmp_path, row["sha256"])
        assert kept is not None and digest(kept) == row["sha256"] and sum(part.size for part in kept) == row["bytes"]
    assert log.content(tmp_path, read.sha256) == read.parts
    assert log.content(tmp_path, digest(expanded.parts)) == expanded.parts
    assert log.content(tmp_path, "0" * 64) is None
    with pytest.raises(UsageError, match="no SHA-256"):
        log.content(tmp_path, "../../etc/passwd")


def test_content_can_be_left_out(wb: Session, tmp_path: Path) -> None:
    wb.audit(tmp_path, content=False)
    content = wb.read("docs://style-guide")
    wb.audit(None)
    assert not (tmp_path / "content").exists() and _lines(tmp_path)[-2]["sha256"] == content.sha256
    assert "no content, only its hashes" in repr(log.Log(tmp_path, content=False))


PARTS = st.builds(
    Part,
    uri=st.text(max_size=20),
    mime=st.none() | st.text(max_size=10),
    data=st.binary(max_size=50) | st.text(st.characters(), max_size=50),
    audience=st.lists(st.sampled_from(["user", "assistant"]), max_size=2).map(tuple),
)


@given(st.lists(PARTS, max_size=4).map(tuple))
def test_packed_parts_come_back(parts: tuple[Part, ...]) -> None:
    assert unpacked(b"".join(packed(parts))) == parts


def test_a_progress_bar_is_no_line_and_a_change_of_status_is(tmp_path: Path) -> None:
    written = log.Log(tmp_path)
    for span in [_span(seconds=None, status="open")] * 5 + [_span(seconds=None, status="waiting"), _span()]:
        written.write(span)
    written.close()
    assert [row["status"] for row in _lines(tmp_path)[1:-1]] == ["open", "waiting", "ok"]


# -- tampering


def _recorded(folder: Path, spans: int = 12, file_bytes: int = log.FILE_BYTES) -> str:
    written = log.Log(folder, file_bytes=file_bytes)
    for number in range(spans):
        written.keep(digest(parts := (Part(uri=f"x://{number}", mime=None, data=f"text {number}"),)), parts)
        written.write(_span(number, detail={"sha256": digest(parts)}))
    written.close()
    return written.path.name


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(*[st.integers(0, 10_000)] * 3, st.sampled_from(["letter", "out", "twice", "swapped", "cut", "file"]))
def test_whatever_is_changed_moved_or_taken_out_is_found(
    tmp_path: Path, which: int, at: int, place: int, how: str
) -> None:
    shutil.rmtree(tmp_path / "log", ignore_errors=True)
    _recorded(tmp_path / "log", file_bytes=4_000)
    newest = _recorded(tmp_path / "log", 2)
    assert log.verify(tmp_path / "log")
    files = sorted((tmp_path / "log").glob("*.jsonl"))
    assert len(files) >= 3
    files = [file for file in files if not file.name.endswith(newest)]  # of its end no other file knows
    file = files[which % len(files)]
    lines = file.read_bytes().splitlines(keepends=True)
    at %= len(lines)
    if how == "letter":
        place %= len(lines[at]) - 1
        lines[at] = lines[at][:place] + bytes([lines[at][place] ^ 1]) + lines[at][place + 1 :]
    elif how == "out":
        del lines[at]
    elif how == "twice":
        lines.insert(at, lines[at])
    elif how == "swapped":
        other = (at + 1) % len(lines)
        lines[at], lines[other] = lines[other], lines[at]
    elif how == "cut":
        del lines[at:]
    if how == "file":
        file.unlink()
    else:
        file.write_bytes(b"".join(lines))
    found = log.verify(tmp_path / "log")
    assert not found and any(file.name in problem for problem in found.problems)
    assert "NOT as it was written" in str(found)


def test_changed_content_is_found(tmp_path: Path) -> None:
    _recorded(tmp_path)
    blob = next(path for path in (tmp_path / "content").rglob("*") if path.is_file())
    blob.write_bytes(blob.read_bytes() + b"!")
    assert [f"the content {blob.name} was changed"] == log.verify(tmp_path).problems
    with pytest.raises(UsageError, match="was changed: its hash is"):
        log.content(tmp_path, blob.name)


# -- what goes wrong


CRASH = """
import os, signal, sys
from workbench import Session
wb = Session("demo?first=30", audit=sys.argv[1])
wb.connect("demo")
wb.attach("docs://style-guide")
import threading
def die():
    while not any(span.kind == "model" for span in wb.spans):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=die).start()
wb.ask("Which products does the SUM ABAP test matrix cover?")
"""


def test_after_a_crash_what_was_open_is_open_and_a_torn_line_is_set_aside(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", CRASH, str(tmp_path)], timeout=60, check=False).returncode == -9
    ((spans),) = log.spans(tmp_path).values()
    assert [span.kind for span in spans if span.seconds is None] == ["turn", "model"]
    assert {span.status for span in spans if span.kind in ("connect", "read", "attach")} == {"ok"}
    assert "open, or cut off" in str(log.verify(tmp_path)) and log.verify(tmp_path)
    (file,) = tmp_path.glob("*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    found, aside = log.read(tmp_path)
    lines = whole.count(b"\n")
    assert len(found) == lines - 1
    assert aside == [f"{file.name}, line {lines} is torn: whoever wrote it was stopped"]
    verified = log.verify(tmp_path)
    assert verified and "torn and set aside" in verified.notes[0]


BESIDE = """
import sys
from workbench import log
from workbench.span import Span
written = log.Log(sys.argv[1], file_bytes=20_000)
print("ready", flush=True); sys.stdin.readline()
for n in range(300):
    written.write(Span(id=f"read-{n}", parent=None, turn=None, kind="read", name=f"x://{n}", actor="user", started=1.7e9,
                       seconds=0.1, status="ok"))
written.close()
"""


def test_kernels_write_beside_each_other(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", BESIDE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for each in running:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    for each in running:
        each.communicate("\n", timeout=60)
    by_session = log.spans(tmp_path)
    assert [len(spans) for spans in by_session.values()] == [300] * 3
    assert log.verify(tmp_path), log.verify(tmp_path).problems


def test_a_full_disk_stops_no_turn_and_the_gap_is_in_the_log(wb: Session, tmp_path: Path) -> None:
    written = wb.audit(tmp_path, content=False)
    assert written is not None
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written.path.stat().st_size + 100, hard))
    try:
        assert wb.ask(QUESTION).status == "ok"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert written.lost == 8 and "8 lines are missing: the disk is full" in repr(written)
    wb.read("docs://style-guide")
    wb.audit(None)
    rows = _lines(tmp_path)
    (gap,) = [row for row in rows if row["kind"] == "lost"]
    assert gap["lines"] == 8 and gap["why"] == "the disk is full"
    assert [row["kind"] for row in rows][-3:] == ["read", "read", "end"] and log.verify(tmp_path)


def test_a_folder_that_cannot_be_written_leaves_the_log_that_is(wb: Session, tmp_path: Path) -> None:
    first = wb.audit(tmp_path / "one")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"no audit log can be written to .*file"):
        wb.audit(tmp_path / "file")
    assert wb.log is first
    for read in (log.read, log.verify, log.spans):
        with pytest.raises(UsageError, match=r"there is no audit log in .*nowhere; %mcp audit on nowhere begins one"):
            read(tmp_path / "nowhere")
    found, aside = log.read(tmp_path / "file")
    assert (found, aside) == ([], [])


def test_a_session_that_is_used_again_goes_on_in_another_file(wb: Session, tmp_path: Path) -> None:
    wb.audit(tmp_path)
    wb.close()
    wb.connect("demo")
    wb.close()
    files = sorted(tmp_path.glob("*.jsonl"))
    assert [file.name[-11:-6] for file in files] == ["-0001", "-0002"] and log.verify(tmp_path)
    lines = files[0].read_bytes().splitlines(keepends=True)
    files[0].write_bytes(b"".join(lines[:-1]))
    assert (
        f"{files[1].name} does not follow {files[0].name}: lines are missing at its end"
        in log.verify(tmp_path).problems
    )


def test_the_oldest_finished_files_go_when_the_folder_is_too_large(tmp_path: Path) -> None:
    _recorded(tmp_path)
    for blob in (tmp_path / "content").rglob("*"):
        os.utime(blob, (0, 0))
    (old,) = tmp_path.glob("*.jsonl")
    size = old.stat().st_size
    alive = log.Log(tmp_path)  # of another kernel: not finished
    second = log.Log(tmp_path, most_bytes=3_000)
    second.close()
    left = sorted(tmp_path.glob("*.jsonl"))
    assert old not in left and alive.path in left
    assert not [path for path in (tmp_path / "content").rglob("*") if path.is_file()]
    verified = log.verify(tmp_path)
    assert verified and f"{old.name} ({size:,} bytes) was removed by the size limit" in verified.notes
    alive.close()


def test_no_secret_gets_into_it(tmp_path: Path) -> None:
    secrets = {Secret("hunter2-hunter2"), Secret("4711")}

    def mask(text: str) -> str:
        from workbench.secret import mask

        return mask(text, secrets)

    written = log.Log(tmp_path, mask=mask)
    parts = (Part(uri="x://1", mime=None, data="your key is hunter2-hunter2"),)
    written.keep(digest(parts), parts)
    clean = (Part(uri="x://2", mime=None, data=b"\xffnothing"),)
    written.keep(digest(clean), clean)
    detail = {"hunter2-hunter2": ["a hunter2-hunter2 b", 4711, {"x": "4711"}], "bytes": 4711}
    written.write(_span(name="x://hunter2-hunter2/1", detail=detail))
    written.close()
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter2" not in everything and b'"bytes": 4711' in everything
    assert log.content(tmp_path, digest(parts)) is None and log.content(tmp_path, digest(clean)) == clean
    assert log.verify(tmp_path)
