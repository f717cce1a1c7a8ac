"""The official conformance suite: our connection layer as its client, the bundled demo server as its server."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def test_the_demo_server_passes_all_that_is_not_listed_with_a_reason() -> None:
    assert set(KNOWN["server"]) < set(scenarios("server"))
    with served("--http") as origin:
        done = suite("server", "--url", f"{origin}/mcp", "--suite", "all", "--expected-failures", str(EXPECTED))
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_our_client_passes_all_that_is_not_listed_with_a_reason(tmp_path: Path) -> None:
    client = shlex.join([sys.executable, "-m", "tests.conformance.client"])

    def passes(scenario: str) -> tuple[str, bool, str]:
        # One at a time each, as the suite wants it; two beside each other.
        done = suite(
            "client", "--command", client, "--scenario", scenario, "-o", str(tmp_path / scenario.replace("/", "-"))
        )
        return scenario, done.returncode == 0, (done.stdout + done.stderr)[-3000:]

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(passes, scenarios("client")))
    assert set(KNOWN["client"]) < {scenario for scenario, _, _ in done}
    wrong = {name: said for name, passed, said in done if passed == (name in KNOWN["client"])}
    assert wrong == {}, json.dumps(wrong, indent=1)
