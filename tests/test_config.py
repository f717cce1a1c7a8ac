"""Other hosts' configuration files, as real files that name real servers; inputs, offers, and what is wrong in a file."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from tests.test_magics import Kernel
from tests.test_transports import served
from workbench import ConnectError, Session, UsageError, config, inputs, jsonc

DEMO = [sys.executable, "-m", "workbench.demo"]
STDIO = f'"command": {json.dumps(sys.executable)}, "args": ["-m", "workbench.demo"]'
TELLER = """
import json, os, sys
from mcp.server.fastmcp import FastMCP

server = FastMCP("teller")


@server.resource("told://all")
def told() -> str:
    return json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "args": sys.argv[1:]})


server.run()
"""


@pytest.fixture(scope="module")
def http() -> Iterator[str]:
    with served("--http") as origin:
        yield origin


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a server in it that tells how it was started; the working folder is below its root."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "teller.py").write_text(TELLER)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


Write = Callable[[str, str], Path]


@pytest.fixture
def write(project: Path) -> Write:
    def write(name: str, text: str) -> Path:
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def told(wb: Session, server: str) -> Any:
    """How a teller was started: its env, cwd and args."""
    return json.loads(str(wb.read("told://all", server).parts[0].data))


# -- the five files


def test_claude_codes_file(write: Write, project: Path, http: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_TOKEN", "t0p-s3cret-crm")
    monkeypatch.setenv("ORIGIN", http)
    path = write(
        ".mcp.json",
        """{"mcpServers": {
          "local": {"type": "stdio", "command": "${PY:-python}", "args": ["teller.py", "--url", "${BASE:-http://x}/y"],
                    "env": {"TOKEN": "${CRM_TOKEN}", "HOME_OF": "${CLAUDE_PROJECT_DIR:-.}"}, "timeout": 90000},
          "remote": {"type": "http", "url": "${ORIGIN}/mcp", "headers": {"Authorization": "Bearer ${CRM_TOKEN}"}}
        }}""",
    )
    with Session() as wb:
        offer = wb.connect_config(path)
        assert list(wb.connections) == ["local", "remote"]
        assert {each.server for each in offer.resources} == {"local", "remote"}
        seen = told(wb, "local")
        assert (seen["cwd"], seen["args"]) == (str(project), ["--url", "http://x/y"])
        assert (seen["env"]["TOKEN"], seen["env"]["HOME_OF"]) == ("t0p-s3cret-crm", str(project))
        assert wb.connections["local"].target.timeout == 90
        assert wb.connections["remote"].target.transport == "http"
        assert "t0p-s3cret-crm" not in repr([c.target for c in wb.connections.values()]) + repr(wb.spans)
        assert len(wb.reconnect("local").resources) == 1


def test_vs_codes_file_with_comments_inputs_and_an_env_file(
    write: Write, project: Path, http: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_INPUT_API_KEY", "k-${HOME}-1")
    (project / "secrets.env").write_text("# the keys\nexport ONE='first $HOME ${HOME}'\nTWO=second\n")
    path = write(
        ".vscode/mcp.json",
        f"""{{ // what the team uses
          "inputs": [{{"type": "promptString", "id": "api-key", "description": "Key", "password": true}},],
          "servers": {{
            "local": {{
              "type": "stdio", "command": {json.dumps(sys.executable)}, /* "url": "http://no", */
              "args": ["${{workspaceFolder}}${{/}}teller.py", "${{workspaceFolderBasename}}", "http://a//b",],
              "env": {{"KEY": "${{input:api-key}}", "TWO": "${{env:NONE:-2}}", "PORT": 8080, "GONE": null}},
              "envFile": "${{workspaceFolder}}/secrets.env", "cwd": "${{userHome}}",
            }},
            "remote": {{"url": "{http}/mcp"}},
          }},
        }}""",
    )
    assert config.load(path).notes == ()
    with Session() as wb:
        wb.connect_config(path)
        seen = told(wb, "local")
        assert seen["args"] == [project.name, "http://a//b"]
        assert seen["cwd"] == str(Path.home())
        wanted = {"KEY": "k-${HOME}-1", "ONE": "first $HOME ${HOME}", "TWO": "2", "PORT": "8080"}
        assert {name: seen["env"].get(name) for name in (*wanted, "GONE")} == {**wanted, "GONE": None}
        assert wb.connections["remote"].alive
        assert project.name in wb.mask(project.name), "a folder's name is no secret"


def test_claude_desktops_file(write: Write, http: str) -> None:
    text = f'{{"globalShortcut": "", "mcpServers": {{"demo-1": {{{STDIO}}}, "web": {{"url": "{http}/mcp"}}}}}}'
    path = write("claude_desktop_config.json", text)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())  # as an editor on Windows saves it
    with Session() as wb:
        assert len(wb.connect_config(path).resources) == 16
        assert wb.connections["demo-1"].target.cwd is None
        path.write_text(text, encoding="utf-16")
        assert len(wb.connect_config(path, "web").resources) == 8


def test_cursors_file(write: Write, project: Path, http: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURSOR_KEY", "c-key-0001")
    (project / ".env").write_text("FROM_FILE=f-value-01\n")
    path = write(
        ".cursor/mcp.json",
        f"""{{"mcpServers": {{
          "local": {{"command": {json.dumps(sys.executable)}, "args": ["${{workspaceFolder}}/teller.py"],
                     "env": {{"KEY": "${{env:CURSOR_KEY}}", "AT": "${{userHome}}${{pathSeparator}}x"}}, "envFile": ".env"}},
          "remote": {{"url": "{http}/mcp", "headers": {{"X-Key": "${{env:CURSOR_KEY}}"}}}}
        }}}}""",
    )
    with Session() as wb:
        wb.connect_config(path)
        seen = told(wb, "local")
        assert seen["cwd"] == str(project)
        assert [seen["env"][name] for name in ("KEY", "AT", "FROM_FILE")] == [
            "c-key-0001", f"{Path.home()}{os.sep}x", "f-value-01",
        ]  # fmt: skip
        assert wb.connections["remote"].target.headers["X-Key"].reveal() == "c-key-0001"


def test_clines_file(write: Write, http: str) -> None:
    with served("--sse") as legacy:
        path = write(
            "cline_mcp_settings.json",
            f"""{{"mcpServers": {{
              "local": {{{STDIO}, "transportType": "stdio", "disabled": false, "autoApprove": [], "timeout": 3600}},
              "web": {{"type": "streamableHttp", "url": "{http}/mcp", "alwaysAllow": ["search_tickets"], "timeout": 30}},
              "old": {{"type": "sse", "url": "{legacy}/sse", "disabled": true}},
              "older": {{"transportType": "http", "url": "{http}/mcp", "disabled": true}}
            }}}}""",
        )
        with Session() as wb:
            wb.connect_config(path)
            assert list(wb.connections) == ["local", "web"]
            targets = {name: connection.target for name, connection in wb.connections.items()}
            assert (targets["local"].timeout, targets["web"].timeout) == (3600, 30)  # Cline means seconds
            assert targets["local"].notes == ()
            assert re.fullmatch(r".*:3:\d+: web: alwaysAllow is ignored: nothing here takes it", *targets["web"].notes)
            wb.connect_config(path, ["old", "older"])
            assert [wb.connections[name].target.transport for name in ("old", "older")] == ["sse", "http"]


# -- connecting some, and failing


def test_one_server_that_fails_stops_no_other_and_the_error_names_it(write: Write) -> None:
    path = write(
        "servers.json",
        f"""{{"mcpServers": {{
          "first": {{{STDIO}}},
          "broken": {{"command": "no-such-command", "args": ["--api-key", "lit3ral-key", "-e", "GH_TOKEN=lit3ral-two"]}},
          "unset": {{"command": "x", "env": {{"A": "${{NOT_SET_HERE}}"}}}},
          "last": {{{STDIO}}}
        }}}}""",
    )
    with Session() as wb, pytest.raises(ConnectError) as caught:
        try:
            wb.connect_config(path)
        finally:
            assert list(wb.connections) == ["first", "last"]
            shown = repr(wb.spans)
    message = str(caught.value)
    assert f"2 of 4 servers in {path} could not be connected" in message
    assert "there is no command 'no-such-command' on the PATH" in message
    assert f"{path}:4:11: unset: the environment variable NOT_SET_HERE is not set" in message
    assert f"Connected: first, last. When that is put right: %mcp connect --config {path} unset broken" in message
    assert "lit3ral" not in message + shown


def test_an_entry_takes_the_place_of_a_connection_of_its_name(write: Write) -> None:
    path = write("servers.json", f'{{"mcpServers": {{"same": {{{STDIO}}}, "dead": {{"command": "no-such-command"}}}}}}')
    with Session() as wb:
        wb.connect("same", command=DEMO)
        wb.connect("dead", command=DEMO)
        before = {name: connection.pid for name, connection in wb.connections.items()}
        wb.connect_config(path, ["same"])
        assert wb.connections["same"].pid != before["same"]
        with pytest.raises(ConnectError, match="no-such-command"):
            wb.connect_config(path, ["dead"])
        assert (wb.connections["dead"].pid, wb.connections["dead"].alive) == (before["dead"], True)


def test_a_literal_token_in_a_header_or_address_is_sent_and_never_shown(write: Write) -> None:
    from http.server import ThreadingHTTPServer
    from threading import Thread

    from tests.test_transports import _Answer

    handler = type("Handler", (_Answer,), {"status": 401, "body": b"no: lit3ral-token", "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/s/0a1b2c3d4e5f6a7b8c9d0e1f2a3b/mcp?key=lit3ral-query"
    path = write(
        "servers.json",
        f'{{"mcpServers": {{"x": {{"url": "{url}", "headers": {{"Authorization": "Bearer lit3ral-token"}}}}}}}}',
    )
    try:
        with Session() as wb, pytest.raises(ConnectError) as caught:
            wb.connect_config(path)
    finally:
        server.shutdown()
        server.server_close()
    assert handler.seen[0] == "Bearer lit3ral-token"  # type: ignore[attr-defined]
    shown = str(caught.value) + repr(wb.spans) + repr(config.load(path)) + repr(config.load(path).entries)
    assert "401" in shown
    assert not re.search("lit3ral|0a1b2c3d", shown)
    assert '"type": "sse"' in shown


# -- what is wrong in a file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "bad.json:1:1: it is empty"),
        ('{"mcpServers": {\n  "a": {"command": "x" "args": []}}}', "bad.json:2:24: this is no JSON: expecting ','"),
        ('{"mcpServers": {\n  // c\n  "a": {"command": nope,}}}', "bad.json:3:20: this is no JSON: expecting value"),
        (r'{"mcpServers": {"a": {"command": "C:\Users\x"}}}', r"invalid \escape; in JSON a backslash is written \\"),
        ('{"mcpServers": {"a": {"command": "x', "this is no JSON: unterminated string"),
        ("{'mcpServers': {}}", "bad.json:1:2: this is no JSON"),
        ("[" * 100_000, "nested too deep"),
        ("[]", "names no servers"),
        ('{"a": {"command": "x"}}', "what it has is a"),
        ('{"mcpServers": []}', "bad.json:1:2: mcpServers is no object"),
        ('{"mcpServers": {}}', "has nothing to connect; it has: none"),
        ('{"mcpServers": {"a": {"command": "x", "disabled": true}}}', "it has: a (disabled). Name one"),
        ('{"mcpServers": {},\n"mcpServers": {}}', "bad.json:2:1: mcpServers is there twice"),
        ('{"mcpServers": {"a": {"command": "x"},\n"a": {"command": "y"}}}', "a is there twice (lines 1 and 2)"),
        ('{"servers": {"a": {}}, "mcpServers": {"a": {}}}', "a is there twice"),
        ('{"mcpServers": {"a": 5}}', "bad.json:1:17: a is a number; an object is wanted"),
        ('{"mcpServers": {"a": {}}}', "has neither command nor url (it has no keys at all)"),
        ('{"mcpServers": {"a": {"serverUrl": "x"}}}', "neither command nor url (it has serverUrl)"),
        ('{"mcpServers": {"a": {"command": "", "url": null}}}', "neither command nor url (it has command)"),
        ('{"mcpServers": {"demo": {}}}', "has neither command nor url"),
        ('{"mcpServers": {"": {"command": "x"}}}', "connect NAME to what?"),
        ('{"mcpServers": {"a": {"command": "x", "url": "http://h"}}}', "has both command and url; take one out"),
        ('{"mcpServers": {"a": {"command": "x",\n "args": "s3cret"}}}', 'bad.json:2:2: a: args is a string; a list of str'),
        ('{"mcpServers": {"a": {"command": ["x"]}}}', "command is a list with a string in it; a string is wanted"),
        ('{"mcpServers": {"a": {"command": "x", "args": ["s3cret", {}]}}}', "a list with a string and an object in it"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": true}}}}', "an object with true or false in it"),
        ('{"mcpServers": {"a": {"command": "x", "env": ["A=s3cret"]}}}', "env is a list with a string in it"),
        ('{"mcpServers": {"a": {"command": "x", "timeout": "60"}}}', "timeout is a string; a number above 0 is wanted"),
        ('{"mcpServers": {"a": {"command": "x", "timeout": 0}}}', "timeout is a number; a number above 0"),
        ('{"mcpServers": {"a": {"command": "x", "disabled": "no"}}}', "disabled is a string; true or false is wanted"),
        ('{"mcpServers": {"a": {"type": "ws", "url": "http://h"}}}', "the type 'ws' is not known; there are stdio, http"),
        ('{"mcpServers": {"a": {"type": "stdio", "url": "http://h"}}}', "the type is stdio, but what it has is a url"),
        ('{"mcpServers": {"a": {"type": "sse", "command": "x"}}}', "the type is sse, but what it has is a command"),
        ('{"mcpServers": {"a": {"url": "unix:///s?key=s3cret"}}}', "is no http:// or https:// address"),
        ('{"mcpServers": {"a": {"command": "${NOT_SET_HERE}"}}}', "bad.json:1:17: a: the environment variable NOT_SET_HERE"),
        ('{"mcpServers": {"a": {"command": "${command:pick}"}}}', "${command:pick} is a variable that only its host"),
        ('{"mcpServers": {"a": {"command": "${A:-${B:-s3cret}}"}}}', "${A is a variable that only its host"),
        ('{"mcpServers": {"a": {"command": "${input:who}"}}}', "'who' of bad.json is not declared"),
        ('{"mcpServers": {"a": {"command": "x", "envFile": "no.env"}}}', "no.env cannot be read: No such file"),
        ('{"mcpServers": {"a": {"command": "x", "envFile": "bad.env"}}}', "bad.env:2 is no NAME=VALUE"),
        (f'{{"mcpServers": {{"a": {{{STDIO}, "cwd": "no/where"}}}}}}', "there is no folder"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_its_place_and_no_value(project: Path, text: str, says: str) -> None:
    Path("bad.json").write_text(text)
    Path("bad.env").write_text("GOOD=1\nbad line s3cret\n")
    with Session() as wb:
        with pytest.raises((UsageError, ConnectError)) as caught:
            wb.connect_config("bad.json")
        assert says in str(caught.value)
        assert "s3cret" not in str(caught.value)
        assert not wb.connections


def test_a_file_that_cannot_be_read_is_told_with_the_files_that_there_are(write: Write, project: Path) -> None:
    write(".mcp.json", '{"mcpServers": {}}')
    Path("binary.json").write_bytes(b'{"\xff\xfe\xfa": 1}')
    with Session() as wb:
        for path, says in (
            ("nothing.json", "there is no file nothing.json"), ("nothing.json", "--config ../.mcp.json"),
            (project, "is no file; there is"), ("/dev/null", "is no file"), ("binary.json", "is no text"),
        ):  # fmt: skip
            with pytest.raises(UsageError, match=re.escape(says)):
                wb.connect_config(path)


def test_a_strict_file_with_a_comma_too_many_is_read_with_a_note_that_says_where(write: Write) -> None:
    path = write(
        "servers.json", f'{{"mcpServers": {{\n  "a": {{{STDIO}, "wheels": 4, "cwd": null, "headers": {{}}}},\n}}}}'
    )
    assert config.load(path).notes == (
        f"{path}:3:1: no strict JSON from here; read all the same (comments, trailing commas), as only some hosts do",
    )
    with Session() as wb:
        assert len(wb.connect_config(path).resources) == 8
        (note,) = wb.connections["a"].target.notes
    assert re.fullmatch(rf"{re.escape(str(path))}:2:\d+: a: wheels is ignored: nothing here takes it", note)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON, st.sampled_from(["/* , } */", '// "x": 1\n', " "]))
def test_comments_and_trailing_commas_change_nothing_and_every_key_has_its_place(value: Any, comment: str) -> None:
    def loosely(value: Any) -> str:
        if isinstance(value, dict):
            return (
                "{"
                + "".join(f"{comment}{json.dumps(k)}:{loosely(v)}," for k, v in value.items()).rstrip()
                + comment
                + "}"
            )
        if isinstance(value, list):
            return "[" + "".join(f"{loosely(each)}{comment}," for each in value) + "]"
        return json.dumps(value, ensure_ascii=False)

    text = loosely({"top": value})
    document = jsonc.read(text)
    assert document.value == {"top": value}
    assert document.lenient is not None
    assert jsonc.read(json.dumps(value)).lenient is None
    if isinstance(value, dict):
        for key in value:
            line, column = map(int, document.at("top", key).split(":"))
            assert text.split("\n")[line - 1][column - 1 :].startswith(json.dumps(key))


@pytest.mark.parametrize("text", ['"' * 200_001, "/*" * 100_000, "[,]" * 100_000, "{" * 200_000, '{"a": ' * 50_000])
def test_hostile_text_is_refused_in_linear_time(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        jsonc.read(text)


# -- offers


def test_a_projects_files_are_offered_up_to_the_root_of_the_repository(write: Write, project: Path) -> None:
    write(".mcp.json", '{"mcpServers": {"a": {"command": "x"}, "b c": {"command": "x"}}}')
    write("notebooks/.vscode/mcp.json", '{"servers": {"b c": {}}') if (
        project / "notebooks/.vscode"
    ).mkdir() is None else 0
    assert config.offers("a") == "found ../.mcp.json with a, b c: %mcp connect --config ../.mcp.json a"
    assert config.offers("b c").endswith("--config ../.mcp.json 'b c'")
    assert "found .vscode/mcp.json, which cannot be used: .vscode/mcp.json:1:24: this is no JSON" in config.offers()
    assert config.offers("other") == ""
    (project / ".git").rmdir()
    assert config.found() == [Path(".vscode/mcp.json")], "without a repository the parents are nobody's business"


# -- inputs, in a kernel that somebody can type into


class Typing:
    """A real kernel with a person at it: what it was asked, what it answered, and everything that it showed."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.asked: list[tuple[str, bool]] = []
        self.shown: list[str] = []

    def run(self, code: str, *answers: str) -> str:
        """The outputs of a cell as text; `answers` are typed into what it asks."""
        waiting, before = list(answers), len(self.shown)

        def stdin(message: Mapping[str, Any]) -> None:
            self.asked.append((message["content"]["prompt"], message["content"]["password"]))
            self.client.input(waiting.pop(0))

        self.client.execute_interactive(
            code, timeout=60, allow_stdin=True, stdin_hook=stdin,
            output_hook=lambda message: self.shown.append(json.dumps(message["content"])),
        )  # fmt: skip
        assert not waiting, "it did not ask for all of them"
        return "\n".join(self.shown[before:])


@pytest.fixture
def typing(project: Path) -> Iterator[Typing]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(project / "notebooks"))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        made = Typing(client)
        made.run("%load_ext workbench\nimport workbench; wb = workbench.session()")
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


INPUTS = """{
  "inputs": [
    {"type": "promptString", "id": "key", "description": "The key\\nof it", "password": true},
    {"type": "promptString", "id": "user", "description": "Who", "default": "nobody-special"},
    {"type": "pickString", "id": "stage", "description": "Where", "options": ["test", {"label": "live", "value": "prod"}]},
    {"type": "command", "id": "run", "command": "x"}
  ],
  "servers": {
    "one": {"command": "PYTHON", "args": ["teller.py", "${input:stage}"],
            "env": {"KEY": "${input:key}", "WHO": "${input:user}"}},
    "two": {"command": "PYTHON", "args": ["teller.py"], "env": {"KEY": "${input:key}"}},
    "wrong": {"command": "PYTHON", "args": ["teller.py", "${NOT_SET_HERE}"], "env": {"KEY": "${input:user}"}},
    "run": {"command": "x", "args": ["${input:run}"]}
  }
}""".replace("PYTHON", sys.executable)


def test_inputs_are_asked_once_a_session_and_what_is_typed_is_never_shown(typing: Typing, write: Write) -> None:
    write(".vscode/mcp.json", INPUTS)
    line = "%mcp connect --config ../.vscode/mcp.json"
    shown = typing.run(f"{line} one two", "9", "hush-hush-1")
    assert "neither a number nor one of them" in shown
    assert "two: connected" in shown
    assert [password for _, password in typing.asked] == [False, True]
    assert typing.asked[1][0] == "The key of it (the input 'key' of ../.vscode/mcp.json): "
    shown = typing.run(f"{line} one two", "2", "")  # the key is known, the user is left at its default
    assert "one: connected" in shown
    assert [prompt.split(" (")[0] for prompt, _ in typing.asked[2:]] == ["Where", "Who"]
    assert "[nobody-special]" in typing.asked[3][0]
    assert "  2  live\n" in typing.asked[2][0]
    seen = typing.run(
        "import json; told = json.loads(wb.read('told://all', 'one').parts[0].data)\n"
        "print(told['args'] == ['prod'], told['env']['KEY'] == 'hush-' + 'hush-1', told['env']['WHO'][:6])"
    )
    assert "True True nobody" in seen
    typing.run("%mcp reconnect one\n%mcp\n%mcp log\nwb.connections['one'].target")
    assert len(typing.asked) == 4, "asked once"
    assert "NOT_SET_HERE is not set" in typing.run(f"{line} wrong")
    assert "which only VS Code can run; set the environment variable MCP_INPUT_RUN" in typing.run(f"{line} run")
    assert len(typing.asked) == 4, "nothing is asked for what cannot be started"
    assert "hush-hush-1" not in "".join(typing.shown)


def test_an_answer_that_may_have_been_wrong_is_asked_again(typing: Typing, write: Write) -> None:
    text = json.dumps({
        "inputs": [{"type": "promptString", "id": "program"}],
        "servers": {"x": {"command": "${input:program}", "args": ["-m", "workbench.demo"]}},
    })  # fmt: skip
    write(".vscode/mcp.json", text)
    line = "%mcp connect --config ../.vscode/mcp.json"
    shown = typing.run(line, "no-such-program")
    assert "could not be connected" in shown
    assert "no-such-program" not in shown
    assert "was left empty" in typing.run(line, "")
    assert "x: connected" in typing.run(line, sys.executable)
    assert "x: connected" in typing.run(line)


# -- the magic, in a batch run


@pytest.fixture
def batch(project: Path) -> Iterator[Kernel]:
    client = NotebookClient(
        nbformat.v4.new_notebook(), kernel_name="python3", timeout=60,
        resources={"metadata": {"path": str(project / "notebooks")}},
    )  # fmt: skip
    with client.setup_kernel():
        made = Kernel(client)
        made.run("%load_ext workbench")
        yield made


def test_the_magic_offers_connects_and_completes(batch: Kernel, write: Write) -> None:
    write(
        ".mcp.json",
        f"""{{"mcpServers": {{ // the team's
          "a": {{{STDIO}, "env": {{"TOKEN": "lit3ral-token"}}}},
          "b": {{"command": "no-such-command"}},
          "off": {{{STDIO}, "disabled": true}}
        }}}}""",
    )
    offer = "found ../.mcp.json with a, b, off: %mcp connect --config ../.mcp.json a"
    status = batch.text("%mcp")
    assert "no server is connected" in status
    assert offer in status
    assert f"connect a to what? {offer}" in batch.fails("%mcp connect a")
    assert f"connect NAME to what? {offer}" in batch.fails("%mcp connect")
    assert "that is a file, not a name: %mcp connect --config x.json" in batch.fails("%mcp connect x.json")
    assert "no server is connected" in batch.text("%mcp"), "nothing is started unasked"
    assert "1 of 2 servers in ../.mcp.json" in batch.fails("%mcp connect --config ../.mcp.json")
    (shown,) = [output for output in batch.book.cells[-1].outputs if output.output_type == "display_data"]
    for words in ("../.mcp.json:1:18: no strict JSON", "a: connected over stdio", "off: disabled in ../.mcp.json"):
        assert words in shown.data["text/plain"]
    assert "off: connected" in batch.text("%mcp connect off --config ../.mcp.json --timeout 30")
    assert "has no server 'zz'; it has: a, b, off (disabled)" in batch.fails("%mcp connect --config ../.mcp.json zz a")
    assert "come from the file" in batch.fails("%mcp connect --config ../.mcp.json a --sse")
    complete = "from workbench.completion import words; print(*words({}))".format
    assert batch.text(complete("['%mcp', 'connect', '--config']")).split() == ["../.mcp.json"]
    assert batch.text(complete("['%mcp', 'connect', '--config', '../.mcp.json', 'a']")).split() == ["b", "off"]
    assert batch.text(complete("['%mcp', 'connect', '--config', 'none.json']")).split() == []
    assert "lit3ral-token" not in nbformat.writes(batch.book)


def test_where_nobody_can_be_asked_the_error_says_what_to_set_instead(batch: Kernel, write: Write) -> None:
    write(".vscode/mcp.json", INPUTS)
    line = "%mcp connect --config ../.vscode/mcp.json two"
    assert "nobody can be asked here; set the environment variable MCP_INPUT_KEY: import os" in batch.fails(line)
    batch.run("import os; os.environ['MCP_INPUT_KEY'] = 'hush-' + 'hush-2'")
    assert "two: connected" in batch.text(line)
    assert "hush-hush-2" not in nbformat.writes(batch.book)


def test_an_input_with_a_default_needs_nobody_and_has_a_variable_of_its_own(write: Write) -> None:
    declared = [{"type": "promptString", "id": "user", "default": "nobody"}]
    path = write("x.json", "{}")
    assert inputs.variable("api-key.v2") == "MCP_INPUT_API_KEY_V2"
    assert inputs.answer(path, declared, "user", {}) == "nobody"
    for broken in (None, {}, [5, {"id": 5}], [{"id": "user"}], [{"id": "user", "type": "pickString", "options": [5]}]):
        with pytest.raises(UsageError, match="MCP_INPUT_USER"):
            inputs.answer(path, broken, "user", {})
