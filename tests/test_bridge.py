"""Servers of a newer generation: those that still speak our revision, and those that are reached through the bridge."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import requires
from tests.test_real_servers import call
from workbench import ConnectError, Session, UsageError, bridge

NEWER = str(Path(__file__).parent / "servers" / "newer.py")
OLD_SDK = """
from mcp.server.mcpserver import MCPServer
made = MCPServer("sdk2")
@made.resource("x:///text")
def text() -> str: return "from mcp 2.3"
@made.tool()
def add(a: int, b: int) -> int: return a + b
made.run()
"""


def environment(*packages: str) -> list[str]:
    """The command of a Python with these packages, in an environment of its own."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    requires(uv is not None, 'no uv: pip install "mcp-agent-workbench[bridge]"')
    command = [
        str(uv),
        "run",
        "--quiet",
        "--no-project",
        "--python",
        sys.executable,
        *(f"--with={p}" for p in packages),
        "python",
    ]
    made = subprocess.run([*command, "-c", "pass"], capture_output=True, check=False)
    requires(made.returncode == 0, f"uv could not make an environment: {made.stderr.decode()[-300:]}")
    return [*command[:2], "--offline", *command[2:]]


@pytest.fixture(scope="module")
def newer() -> list[str]:
    return [*environment("fastmcp==4.1.6"), NEWER]


@contextmanager
def served(command: list[str]) -> Iterator[str]:
    server = subprocess.Popen([*command, "--http"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stderr is not None
    try:
        for line in server.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield f"{found[0]}/mcp"
                return
        raise AssertionError("the server did not say where it listens")
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # uv has a child, which is the server
        server.wait()


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session() as session:
        yield session


def works(wb: Session) -> None:
    """Everything of the newer server arrives whole."""
    assert str(wb.read("x:///text").parts[0].data).endswith("the last line, grüß gott")
    assert wb.read("x:///bytes").parts[0].data == bytes(range(256))
    assert "5" in call(wb, "n__add", a=2, b=3)
    assert "Review x = 1." in call(wb, "invoke_prompt", name="review", arguments={"code": "x = 1"})


def test_a_server_on_fastmcp_4_that_still_speaks_our_revision_needs_no_bridge(wb: Session, newer: list[str]) -> None:
    wb.connect("n", command=newer)
    assert wb.connections["n"].speaks == "speaks 2025-11-25"
    works(wb)
    with served(newer) as url:
        wb.connect("n", url=url)
        works(wb)


def test_a_server_on_mcp_2_that_still_speaks_our_revision_needs_no_bridge(wb: Session) -> None:
    wb.connect("n", command=[*environment("mcp==2.3.0"), "-c", OLD_SDK])
    assert wb.read("x:///text").parts[0].data == "from mcp 2.3"
    assert "5" in call(wb, "n__add", a=2, b=3)


def test_a_server_that_speaks_only_the_new_revision_is_refused_in_one_line_with_what_to_type(
    wb: Session, newer: list[str]
) -> None:
    with pytest.raises(ConnectError) as caught:
        wb.connect("n", command=[*newer, "--only-new"])
    said = str(caught.value)
    assert "speaks only MCP 2026-07-28 or newer, this workbench 2025-11-25 and older" in said and "\n" not in said
    assert said.endswith(f"%mcp connect n --bridge -- {' '.join(newer)} --only-new")
    with served([*newer, "--only-new"]) as url, pytest.raises(ConnectError, match="400") as caught:
        wb.connect("n", url=url)
    assert f"%mcp connect n --bridge {url}" in str(caught.value)


def test_the_bridge_reaches_it_over_stdio(wb: Session, newer: list[str], tmp_path: Path) -> None:
    wb.connect(
        "n", command=[*newer, "--only-new"], env={"NEWER_TOKEN": "hidden-token-77"}, cwd=str(tmp_path), bridge=True
    )
    works(wb)
    assert wb.connections["n"].speaks == "speaks 2026-07-28 through the bridge, which speaks 2025-11-25 to us"
    said = call(wb, "n__environment")
    assert f"hidden-token-77 False {tmp_path}" in said, "its variable and folder are its own, and ours is not handed on"
    server, proxy = int(said.split()[-1]), wb.connections["n"].pid
    assert "hidden-token-77" not in Path(f"/proc/{proxy}/cmdline").read_text()
    wb.disconnect("n")
    deadline = time.monotonic() + 2
    while _runs(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(server), "the server behind the bridge ends with it"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_the_bridge_reaches_it_over_http(wb: Session, newer: list[str]) -> None:
    with served([*newer, "--only-new"]) as url:
        wb.connect("n", url=url, bridge=True)
        works(wb)


def test_a_server_behind_the_bridge_that_does_not_start_is_told_in_its_own_words(wb: Session, newer: list[str]) -> None:
    with pytest.raises(ConnectError, match="fatal: no database"):
        wb.connect("n", command=[*newer, "--fail"], bridge=True, timeout=20)
    assert wb.connections == {}


def test_without_uv_it_says_what_to_install(wb: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ConnectError, match=r'pip install "mcp-agent-workbench\[bridge\]"'):
        wb.connect("n", command=["x"], bridge=True)


def test_an_environment_that_cannot_be_made_is_told_in_words(wb: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_FASTMCP", "no-such-package-of-ours==9.9.9")
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(ConnectError, match="could not be made; it needs a network once"):
        wb.connect("n", command=["x"], bridge=True)


def test_a_server_of_this_process_needs_no_bridge(wb: Session) -> None:
    with pytest.raises(UsageError, match="needs no bridge"):
        wb.connect("n", server=object(), bridge=True)
