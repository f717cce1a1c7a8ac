"""The official conformance suite: our connection layer as its client, the bundled demo server as its server."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import requires
from tests.test_transports import served

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITE = ROOT / "tests/npm/node_modules/@modelcontextprotocol/conformance/dist/index.js"
EXPECTED = HERE / "expected.yml"
KNOWN = yaml.safe_load(EXPECTED.read_text())
CLIENT = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", "auth/resource-mismatch")
"""The client scenarios that pass. The last one does so because we follow no server to its place for tokens."""

pytestmark = pytest.mark.npm


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    requires(node is not None, "no Node.js: install it, then `make npm`")
    requires(SUITE.is_file(), "the conformance suite is not installed: `make npm`")
    return subprocess.run(
        [str(node), str(SUITE), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def scenarios(side: str) -> list[str]:
    listed = suite("list").stdout.split("Client scenarios")
    return re.findall(r"^\s+- (\S+)$", listed[side == "client"], re.MULTILINE)


def test_every_scenario_of_the_suite_is_run_and_every_one_that_is_listed_exists() -> None:
    assert sorted([*CLIENT, *KNOWN["client"]]) == sorted(scenarios("client"))
    assert set(KNOWN["server"]) < set(scenarios("server"))


def test_the_demo_server_passes_all_that_is_not_listed_with_a_reason() -> None:
    with served("--http") as origin:
        done = suite("server", "--url", f"{origin}/mcp", "--suite", "all", "--expected-failures", str(EXPECTED))
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


# One after the other: the suite itself runs several at once, and then fails a client whose reconnecting comes 0.2 s late.
@pytest.mark.parametrize("scenario", [*CLIENT, *KNOWN["client"]])
def test_our_client_passes_what_is_not_listed_and_fails_the_rest_for_the_reason_that_is(scenario: str) -> None:
    client = shlex.join([sys.executable, "-m", "tests.conformance.client"])
    done = suite("client", "--command", client, "--scenario", scenario)
    said = (done.stdout + done.stderr)[-4000:]
    if scenario in KNOWN["client"]:
        assert done.returncode == 1 and "It wants a token" in said, said
    else:
        assert done.returncode == 0, said
