"""A JupyterLab of its own for tests: nothing of the user's own Jupyter is read or changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# labconfig/default_setting_overrides.json
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    # A windowed notebook takes cells that are scrolled away out of the page.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none", "kernelShutdown": True},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
OPTIONS = [
    "--no-browser",
    "--allow-root",
    "--expose-app-in-browser",  # window.jupyterapp: commands without menus
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port=0",  # the system picks one
    "--IdentityProvider.token=",
    "--ServerApp.disable_check_xsrf=True",
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
]


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A running JupyterLab. `home` holds its settings, signatures and connection files, and goes when it stops."""

    url: str
    root: Path
    home: Path

    def sessions(self, path: str) -> list[dict[str, Any]]:
        """What the server says about the kernel of the notebook at `path`; empty if it has none."""
        with urllib.request.urlopen(f"{self.url}api/sessions", timeout=10) as reply:
            return [session for session in json.load(reply) if session["path"] == path]

    def shut_down(self, path: str) -> None:
        """End the kernel of the notebook at `path`, if it has one."""
        for session in self.sessions(path):
            request = urllib.request.Request(f"{self.url}api/sessions/{session['id']}", method="DELETE")
            urllib.request.urlopen(request, timeout=10).close()


@contextmanager
def lab_server(root: Path) -> Iterator[Lab]:
    """JupyterLab on a free port of the loopback, serving `root`; it and its kernels end with the block.

    A new server trusts no notebook: what another one ran and saved is shown as a stranger's.
    """
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as made:
        home = Path(made)
        (home / "config/labconfig").mkdir(parents=True)
        (home / "config/labconfig/default_setting_overrides.json").write_text(json.dumps(SETTINGS))
        command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--ServerApp.root_dir={root}"]
        with (home / "lab.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=_environment(home), cwd=root, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield Lab(url=_url(home, process), root=root, home=home)
        finally:
            _stop(process)


def _environment(home: Path) -> dict[str, str]:
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    return {**os.environ, **{name: str(home / folder) for name, folder in folders.items()}}


def _url(home: Path, process: subprocess.Popen[bytes], seconds: float = 60) -> str:
    """Wait until the server answers; it writes its address to a file, since the port is the system's choice."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError, ValueError):
            url = str(json.loads((home / f"runtime/jpserver-{process.pid}.json").read_text())["url"])
            urllib.request.urlopen(f"{url}api/status", timeout=5).close()
            return url
        time.sleep(0.05)
    raise RuntimeError(f"JupyterLab did not start; its log:\n{(home / 'lab.log').read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)  # the first one: it ends its kernels, too
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
