"""Servers of a newer generation: those that still speak our revision, and those that are reached through the bridge."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.conftest import NPM, requires
from tests.test_connection import gone, pid_of
from tests.test_real_servers import call
from workbench import ConnectError, NotConnected, Session, UsageError, bridge, commands

HERE = Path(__file__).parent
NEWER = str(HERE / "servers" / "newer.py")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def environment(*packages: str) -> str:
    """The Python of an environment of its own that has these packages; made once, then in uv's cache."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    requires(uv is not None, 'no uv: pip install "mcp-agent-workbench[bridge]"')
    first, *more = packages
    command = [str(uv), "tool", "run", "--quiet", "--python", sys.executable, "--from", first]
    command += [word for package in more for word in ("--with", package)]
    made = subprocess.run(
        [*command, "python", "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
    )
    requires(made.returncode == 0, f"uv could not make an environment: {made.stderr[-300:]}")
    return made.stdout.strip()


@pytest.fixture(scope="module")
def newer() -> list[str]:
    """The command of the server on fastmcp 4; the environment is the bridge's own."""
    return [environment(*bridge._PACKAGES), NEWER]


@pytest.fixture(scope="module")
def sdk2() -> list[str]:
    return [environment("mcp==2.3.0"), NEWER]


@pytest.fixture(scope="module")
def typescript() -> list[str]:
    """The command of a server that refuses our revision by its SDK's own option."""
    node = shutil.which("node")
    requires(node is not None, "no Node.js: install it, then `make npm`")
    requires((NPM / "@modelcontextprotocol/server").is_dir(), "the TypeScript SDK 2 is not installed: `make npm`")
    return [str(node), str(NPM.parent / "newer.mjs")]


@contextmanager
def served(command: list[str]) -> Iterator[str]:
    """The address of a server over HTTP; the process is the server itself, so that none is left behind."""
    server = subprocess.Popen([*command, "--http"], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    said = []
    try:
        for line in server.stderr:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                Thread(target=server.stderr.read, daemon=True).start()  # a full pipe would stop it
                yield f"{found[0]}/mcp"
                return
        raise AssertionError(f"the server ended with {server.wait()} and did not say where it listens: {''.join(said)}")
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session() as session:
        yield session


def works(wb: Session) -> None:
    """Everything of the newer server arrives whole."""
    assert str(wb.read("x:///text").parts[0].data).endswith("line\nthe last line, grüß gott")
    assert str(wb.read("x:///text").parts[0].data).count("line\n") == 3000
    assert wb.read("x:///bytes").parts[0].data == bytes(range(256))
    assert "5" in call(wb, "n__add", a=2, b=3)
    assert "Review x = 1." in call(wb, "invoke_prompt", name="review", arguments={"code": "x = 1"})


def refused(wb: Session, **where: Any) -> str:
    with pytest.raises(ConnectError) as caught:
        wb.connect("n", **where)
    assert wb.connections == {}
    return str(caught.value)


# -- those that still speak our revision


@pytest.mark.parametrize("generation", ["newer", "sdk2"])
def test_a_newer_server_that_still_speaks_our_revision_needs_no_bridge(
    wb: Session, generation: str, request: pytest.FixtureRequest
) -> None:
    command = request.getfixturevalue(generation)
    wb.connect("n", command=command)
    assert wb.connections["n"].speaks == "speaks 2025-11-25"
    works(wb)
    with served(command) as url:
        wb.connect("n", url=url)
        assert wb.connections["n"].speaks == "speaks 2025-11-25"
        works(wb)


# -- the refusal


def test_a_server_that_speaks_only_the_new_revision_is_refused_in_one_line_with_what_to_type(
    wb: Session, newer: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line has everything that was typed, and of secrets nothing that the environment does not have."""
    monkeypatch.setenv("FROM_HERE", "hidden-token-78")
    command = [*newer, "--only-new", "two words"]
    env = {"NEWER_TOKEN": "hidden-token-77", "FROM_HERE": "hidden-token-78"}
    said = refused(wb, command=command, env=env, cwd=str(tmp_path), timeout=45.5)
    assert "speaks only MCP 2026-07-28, this workbench 2025-11-25 and older" in said and "\n" not in said
    line = said.rpartition("Reach it through the bridge: ")[2]
    options = ["--env", "NEWER_TOKEN=VALUE", "--env", "FROM_HERE", "--cwd", str(tmp_path), "--timeout", "45.5"]
    assert shlex.split(line) == ["%mcp", "connect", "n", "--bridge", *options, "--", *command]
    assert "hidden-token" not in said


@pytest.mark.parametrize("generation", ["newer", pytest.param("typescript", marks=pytest.mark.npm)])
def test_over_http_the_reason_in_a_status_400_is_read(
    wb: Session, generation: str, request: pytest.FixtureRequest
) -> None:
    """The two SDKs say it in different words: -32602 that asks for the version, and -32022 that lists them."""
    with served([*request.getfixturevalue(generation), "--only-new"]) as url:
        said = refused(wb, url=url, headers={"Authorization": "Bearer hidden-token-77"})
    assert "speaks only MCP 2026-07-28, this workbench 2025-11-25 and older" in said and "\n" not in said
    assert said.endswith(f"%mcp connect n --bridge --header 'Authorization: VALUE' {url}")


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"{", b'{"error": {"code": -32000, "message": "Bad Request"}}', b"x" * 99999]
)
def test_a_status_400_without_that_reason_offers_the_bridge_with_an_if(wb: Session, body: bytes) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    site = HTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        said = refused(wb, url=f"http://127.0.0.1:{site.server_port}/mcp", timeout=10)
    finally:
        site.shutdown()
        site.server_close()
    assert "400" in said and "if it is one: %mcp connect n --bridge --timeout 10 http://127.0.0.1" in said
    assert "speaks only" not in said.split("\n")[0]


def error(code: int, message: str = "", **data: Any) -> dict[str, Any]:
    return {"code": code, "message": message, "data": data or None}


@pytest.mark.parametrize(
    ("told", "spoken"),
    [
        (error(-32022), ["2026-07-28"]),
        (error(-32601, "no handshake here", supported=["2026-07-28", "2027-02-01"]), ["2026-07-28", "2027-02-01"]),
        (error(-32022, supported=["2025-06-18", "2026-07-28"]), None),  # it has another reason: we speak one of them
        (error(-32022, supported=[7, "<b>", None, "2026-07-28"]), ["2026-07-28"]),
        (error(-32602, "Invalid params"), None),
        ({"code": -32000, "data": {"supported": "2026-07-28"}}, None),
        ("nonsense", None),
        (None, None),
    ],
)
def test_what_an_error_says_of_the_revisions_is_not_believed_beyond_dates(told: Any, spoken: Any) -> None:
    assert bridge.supported(told) == spoken


def test_a_revision_that_the_bridge_does_not_speak_either_is_not_offered(wb: Session) -> None:
    from workbench.target import target

    where = target("n", ["x"], {}, None, None, {}, "http", 60)
    said = bridge.refusal(where, ["2027-02-01"], "2025-11-25")
    assert "speaks only MCP 2027-02-01" in said and "no way to it yet" in said and "%mcp" not in said
    rooted = target("n", ["x"], {}, None, None, {}, "http", 60, roots=["."])
    said = bridge.refusal(rooted, [bridge.REVISION], "2025-11-25")
    assert said.endswith("Reach it through the bridge, which tells of no roots: %mcp connect n --bridge -- x")


# -- the bridge


@linux
def test_the_bridge_reaches_it_over_stdio(wb: Session, newer: list[str], tmp_path: Path) -> None:
    token = {"NEWER_TOKEN": "hidden-token-77"}
    wb.connect("n", command=[*newer, "--only-new"], env=token, cwd=str(tmp_path), bridge=True)
    works(wb)
    shown = commands._status(wb, "n")
    assert "connected over stdio to newer" in shown, "the server's own name, not the proxy's"
    assert "speaks 2026-07-28 through the bridge, which speaks 2025-11-25 to us" in shown
    said = call(wb, "n__environment")
    assert f"hidden-token-77 False {tmp_path}" in said, "its variable and folder are its own, and ours is not handed on"
    server, proxy = int(said.split()[-1]), pid_of(wb, "n")
    assert "hidden-token-77" not in Path(f"/proc/{proxy}/cmdline").read_text() + repr(wb.spans)
    wb.disconnect("n")
    assert gone(proxy) and gone(server), "the server behind the bridge ends with it"


def test_the_bridge_reaches_it_over_http(wb: Session, newer: list[str]) -> None:
    with served([*newer, "--only-new"]) as url:
        wb.connect("n", url=url, headers={"Authorization": "Bearer hidden-token-77"}, bridge=True)
        works(wb)
        assert "Bearer hidden-token-77" in call(wb, "n__environment")
        assert "hidden-token-77" not in repr([span for span in wb.spans if span.kind == "connect"])


@pytest.mark.npm
@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
def test_the_bridge_reaches_a_server_of_the_typescript_sdk(
    wb: Session, newer: list[str], typescript: list[str], http: bool
) -> None:
    with served(typescript) if http else nullcontext() as url:
        wb.connect("n", url=url, command=() if http else typescript, bridge=True)
        assert wb.connections["n"].server_info == "newer-typescript 7.1"
        works(wb)


@linux
def test_when_the_kernel_is_killed_the_proxy_and_a_stubborn_server_behind_it_are_gone(newer: list[str]) -> None:
    script = (
        "import sys, workbench\n"
        "wb = workbench.Session()\n"
        f"wb.connect('n', command={[*newer, '--only-new', '--stubborn']!r}, bridge=True)\n"
        "c = wb.connections['n']\n"
        "print(c.pid, wb.loop.run(c.call('environment', {})).value.items[0].data.split()[-1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    kernel = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent
    )
    try:
        assert kernel.stdout is not None
        proxy, server = map(int, kernel.stdout.readline().split())
        assert not gone(server, 0.1)
    finally:
        kernel.kill()
        kernel.communicate()
    assert gone(proxy) and gone(server)


@linux
def test_a_server_that_ends_behind_the_bridge_is_told_with_its_last_words(wb: Session, newer: list[str]) -> None:
    wb.connect("n", command=[*newer, "--only-new"], bridge=True)
    proxy = pid_of(wb, "n")
    pending = wb.loop.run(wb.connections["n"].call("crash", {})).value
    assert pending.error, "the call that it died of is answered by the proxy, before that ends too"
    assert gone(proxy)
    with pytest.raises(NotConnected, match=r"(?s)n has ended.*status 7.*fatal: out of cheese"):
        wb.loop.run(wb.connections["n"].call("add", {"a": 2, "b": 3}))
    assert "n: ended over stdio" in commands._status(wb, "n")
    assert wb.read("x:///bytes").parts[0].data == bytes(range(256)), "started again for a read, as others are"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["--fail"], "fatal: no database"),
        (["http://127.0.0.1:9/mcp"], "its server could not be reached: All connection attempts failed."),
        ([sys.executable, "-m", "workbench.demo"], "It speaks MCP 2025-11-25, which needs no bridge"),
        (["no-such-command-of-ours"], "No such file or directory: 'no-such-command-of-ours'"),
    ],
)
def test_a_server_that_the_bridge_cannot_reach_is_told_in_words(
    wb: Session, newer: list[str], command: list[str], says: str
) -> None:
    own = command == ["--fail"]
    where = {"url": command[0]} if command[0].startswith("http") else {"command": [*newer * own, *command]}
    said = refused(wb, bridge=True, timeout=30, **where)
    assert says in said and "Traceback" not in said
    assert own or "\n" not in said, "of an ordinary server's many lines about what it was asked, none"


# -- its environment


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known yet of where the proxy's environment is."""
    monkeypatch.setattr(bridge, "_python", [])


@pytest.fixture
def fake_uv(unknown: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Put a script in the place of `uv`: only a fresh machine would really make the environment."""

    def put(script: str) -> None:
        (tmp_path / "uv").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "uv").chmod(0o755)
        monkeypatch.setattr(bridge.shutil, "which", lambda name, **_: str(tmp_path / "uv") if name == "uv" else None)

    return put


def test_without_uv_it_says_what_to_install(wb: Session, unknown: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge.shutil, "which", lambda *_, **__: None)
    with pytest.raises(UsageError, match=r'pip install "mcp-agent-workbench\[bridge\]"'):
        wb.connect("n", command=["x"], bridge=True)


def test_an_environment_that_cannot_be_made_is_told_in_words(
    wb: Session, newer: list[str], unknown: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "_PACKAGES", ("no-such-package-of-ours==9.9.9",))
    monkeypatch.setenv("UV_OFFLINE", "1")
    said = refused(wb, command=["x"], bridge=True)
    assert "could not be made; it needs a network once" in said and "no-such-package-of-ours" in said


@linux
def test_making_it_takes_no_time_of_the_handshakes_and_is_told_before(
    wb: Session, newer: list[str], fake_uv: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake_uv(f'case "$*" in *--offline*) exit 1;; esac; sleep 1; echo {newer[0]}')
    commands._tell_of_bridge(wb)
    assert "Making the bridge's environment, once" in capsys.readouterr().out
    assert "no answer to the handshake within 0.1 s" in refused(wb, command=["x"], bridge=True, timeout=0.1)
    assert bridge._python == [newer[0]], "and it was made all the same"


@linux
def test_an_interrupt_while_it_is_made_ends_uv_and_what_it_has_started(
    wb: Session, fake_uv: Callable[[str], None], tmp_path: Path
) -> None:
    fake_uv(f'case "$*" in *--offline*) exit 1;; esac; sleep 60 & echo $! > {tmp_path}/pid; wait')

    os.mkfifo(tmp_path / "pid")  # opened for reading it waits until uv has started its child
    making = wb.loop.submit(bridge.prepared())
    child = int((tmp_path / "pid").read_text())
    making.cancel()
    assert gone(child)


def test_a_server_of_this_process_needs_no_bridge(wb: Session) -> None:
    with pytest.raises(UsageError, match="needs no bridge"):
        wb.connect("n", server=object(), bridge=True)


def test_proxies_and_certificates_reach_the_bridge_for_an_address_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.target import target

    monkeypatch.setenv("SSL_CERT_FILE", "ours.pem")
    over_http = target("n", [], {}, None, "https://host/mcp", {}, "http", 60)
    assert bridge.environment(over_http)["SSL_CERT_FILE"] == "ours.pem"
    assert "SSL_CERT_FILE" not in bridge.environment(target("n", ["x"], {}, None, None, {}, "http", 60))
