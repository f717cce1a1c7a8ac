"""Servers that nobody here wrote, started as their users start them: connect, list, and one call or read of each."""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench.demo
from tests.conftest import NPM, requires
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session

GIT, FETCH = "2026.10.19", "2026.10.24"
PDF = Path(workbench.demo.__file__).parent / "documents" / "sum-checklist.pdf"


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session() as session:
        yield session


def npm(name: str, *arguments: str) -> list[str]:
    """The command of a server from npm, by its package's own entry."""
    node, folder = shutil.which("node"), NPM / name
    requires(node is not None, "no Node.js: install it, then `make npm`")
    requires(folder.is_dir(), f"{name} is not installed: `make npm`")
    entry = json.loads((folder / "package.json").read_text())["bin"]
    return [str(node), str(folder / (entry if isinstance(entry, str) else next(iter(entry.values())))), *arguments]


def pypi(name: str, version: str, *arguments: str) -> list[str]:
    """A server from PyPI, which may want another `mcp` than ours: in an environment of its own, as `uvx` makes it."""
    uvx = shutil.which("uvx", path=str(Path(sys.executable).parent)) or shutil.which("uvx")
    requires(uvx is not None, 'no uvx: pip install "mcp-agent-workbench[bridge]"')
    made = subprocess.run([str(uvx), "--from", f"{name}=={version}", name, "--help"], capture_output=True, check=False)
    requires(made.returncode == 0, f"uvx could not make the environment of {name}: {made.stderr.decode()[-300:]}")
    return [str(uvx), "--offline", "--from", f"{name}=={version}", name, *arguments]  # the environment is there now


def call(wb: Session, tool: str, **arguments: Any) -> str:
    """What a model gets that calls the tool, approved."""
    made = Call(id="c", name=tool, args=arguments)
    model = Scripted(replies=[Reply(calls=(made,)), Reply(text="done")])
    turn = wb.ask("go", model=model, approve="all", new=True)
    assert [span.status for span in turn.spans] == ["ok"] * len(turn.spans), repr(turn)
    return "\n".join(str(message.content) for message in model.seen[-1][2:])


@pytest.mark.npm
def test_filesystem(wb: Session, tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n" + "step\n" * 5000 + "the last step")
    offer = wb.connect("files", command=npm("@modelcontextprotocol/server-filesystem", str(tmp_path)))
    assert "read_text_file" in [tool.name for tool in offer.tools]
    assert "the last step" in call(wb, "files__read_text_file", path=str(tmp_path / "plan.md"))


@pytest.mark.npm
def test_memory(wb: Session, tmp_path: Path) -> None:
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    wb.connect("memory", command=npm("@modelcontextprotocol/server-memory"), env=env)
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    call(wb, "memory__create_entities", entities=[entity])
    assert "writes programs" in call(wb, "memory__read_graph")


@pytest.mark.npm
def test_pdf(wb: Session, tmp_path: Path) -> None:
    shutil.copy(PDF, tmp_path / "checklist.pdf")
    offer = wb.connect(
        "pdf", command=npm("@modelcontextprotocol/server-pdf", "--stdio", str(tmp_path / "checklist.pdf"))
    )
    assert "checklist.pdf" in call(wb, "pdf__list_pdfs")
    (viewer,) = offer.resources
    assert "</html>" in str(wb.read(viewer.uri).parts[0].data)[-200:], "4 MB of HTML, whole"


def test_git(wb: Session, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "The very first commit"], check=True)
    wb.connect("git", command=pypi("mcp-server-git", GIT, "--repository", str(tmp_path)))
    assert "The very first commit" in call(wb, "git__git_log", repo_path=str(tmp_path))


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = (
            b"<html><body><article><h1>News</h1><p>The bridge is open again, says the town.</p></article></body></html>"
        )
        self.send_response(404 if "robots" in self.path else 200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_fetch(wb: Session) -> None:
    command = pypi("mcp-server-fetch", FETCH, "--allow-private-ips", "--ignore-robots-txt")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        offer = wb.connect("fetch", command=command)
        address = f"http://127.0.0.1:{pages.server_port}/news"
        assert [prompt.name for prompt in offer.prompts] == ["fetch"]
        assert "The bridge is open again" in call(wb, "fetch__fetch", url=address)
        assert "The bridge is open again" in call(wb, "invoke_prompt", name="fetch", arguments={"url": address})
        pages.shutdown()
