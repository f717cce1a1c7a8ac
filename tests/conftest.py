"""What all tests share. Outside CI a missing program skips a test and says why; where `CI=true` it fails it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest_plugins = ["tests.servers.providers"]

NPM = Path(__file__).parent / "npm/node_modules"
NPM_SERVER = NPM / "@modelcontextprotocol/server-everything/dist/index.js"


def requires(found: bool, missing: str) -> None:
    """Let the test go on only if `found`; `missing` says what is not there and how to get it."""
    if found:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{missing} (required, since CI=true)", pytrace=False)
    pytest.skip(missing)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium: the one that `CHROMIUM` names, else Debian's."""
    path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    requires(os.access(path, os.X_OK), f"no Chromium at {path}: apt-get install chromium, or set CHROMIUM")
    return path


@pytest.fixture(scope="session")
def npm_server() -> tuple[str, str]:
    """Command of server-everything over stdio: Node and the server's entry; add `stdio`, `sse` or `streamableHttp`."""
    node = shutil.which("node")
    requires(node is not None, "no Node.js: install it, then `make npm`")
    requires(NPM_SERVER.is_file(), "server-everything is not installed: `make npm`")
    return str(node), str(NPM_SERVER)
