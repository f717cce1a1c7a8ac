"""What a server tells beside its answers, as a notebook shows it: in a real kernel, with somebody there and without."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from tests.servers import HERE, talkative

ROOT = Path(__file__).parent.parent
SETUP = f"""\
import os
os.environ["PYTHONPATH"], os.environ["TOKEN"] = {str(ROOT)!r}, "chatty-secret-1"
%load_ext workbench
%mcp connect c --env TOKEN --root tests -- {sys.executable} {HERE / "chatty.py"}
%mcp connect demo
wb = __import__("workbench").session()"""


@pytest.fixture(scope="module")
def client() -> Iterator[BlockingKernelClient]:
    manager, made = start_new_kernel(kernel_name="python3", cwd=str(ROOT))
    outputs(made, SETUP)
    yield made
    made.stop_channels()
    manager.shutdown_kernel(now=True)


def outputs(client: BlockingKernelClient, code: str, there: bool = True) -> tuple[list[str], list[str]]:
    """All that a cell shows one after the other, and what is left of it in the saved notebook."""
    seen: list[str] = []
    saved: dict[str, str] = {}

    def heard(message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind in ("display_data", "update_display_data", "stream", "error", "execute_result"):
            text = str(content.get("text") or content.get("evalue") or content.get("data", {}).get("text/plain", ""))
            identity = content.get("transient", {}).get("display_id") or f"n{len(seen)}"
            assert kind != "update_display_data" or identity in saved
            seen.append(text)
            saved[identity] = text

    client.execute_interactive(code, allow_stdin=there, output_hook=heard, timeout=60)
    return seen, list(saved.values())


@pytest.mark.parametrize(
    "line", ["%mcp read board://sprint/current --server c", "%mcp attach board://sprint/current --server c"]
)
def test_progress_is_shown_in_place_and_only_the_result_is_saved(client: BlockingKernelClient, line: str) -> None:
    seen, saved = outputs(client, line)
    assert "board://sprint/current: ████████████████░░░░░░░░ progress 2 of 3 (67%): page 2 ••••" in seen, (
        "and what the server echoes is masked"
    )
    assert len(seen) == len(set(seen)), "nothing is sent twice"
    assert len(saved) == 1, saved
    assert "version 1" in saved[0] or "attached board://sprint/current" in saved[0]


def test_progress_of_what_fails_is_not_saved(client: BlockingKernelClient) -> None:
    outputs(client, f"%mcp connect t -- {' '.join(talkative())}")
    seen, saved = outputs(client, "%mcp read slow://broken --server t")
    assert any("progress 2 of 3" in text for text in seen)
    assert not any("progress" in text for text in saved)
    assert any("it fell apart" in text for text in saved)


def test_in_a_batch_run_no_progress_is_shown(client: BlockingKernelClient) -> None:
    seen, saved = outputs(client, "%mcp read board://sprint/current --server c", there=False)
    assert seen == saved
    assert "version 1" in seen[0]


def test_logs_show_what_was_told_from_a_level_on(client: BlockingKernelClient) -> None:
    call = "_ = wb.loop.run(wb.connection('c').call('speak', {}))"
    assert outputs(client, call)[0] == [], "never printed unasked"
    (shown,), _ = outputs(client, "%mcp logs c")
    assert "debug: a quiet word" in shown
    assert 'error store: {"disk": "full", "token": "••••"}' in shown
    assert "stderr:" in shown
    assert "stdout, beside the protocol:" in shown
    (shown,), _ = outputs(client, "%mcp logs c --level error")
    assert "a quiet word" not in shown
    assert "error store" in shown


def test_a_level_is_asked_for_where_the_server_takes_one(client: BlockingKernelClient) -> None:
    outputs(client, "%mcp logs c --set-level warning")
    (said,), _ = outputs(client, "print(wb.loop.run(wb.connection('c').call('speak', {})).value.items[0].data)")
    assert said.strip() == "warning"
    assert "demo declares no logging, so it takes no level" in outputs(client, "%mcp logs demo --set-level debug")[0][0]
    assert "invalid choice: 'loud'" in outputs(client, "%mcp logs c --set-level loud")[0][0]


def test_notify_and_roots_by_magic(client: BlockingKernelClient) -> None:
    (said,), _ = outputs(client, "%mcp attach --refresh notify plain://Host/%C3%84%20b")
    assert "attached plain://Host/%C3%84%20b from c" in said
    refused = outputs(client, "%mcp attach docs://style-guide --refresh notify")[0][0]
    assert "demo does not tell of changes" in refused
    assert "refresh once or turn" in refused
    (said,), _ = outputs(client, "print(wb.loop.run(wb.connection('c').call('folders', {})).value.items[0].data)")
    assert said.strip() == f"{(ROOT / 'tests').as_uri()} tests, changing: False"
    missing = outputs(client, "%mcp connect d --root nowhere -- python -c 1")[0][0]
    assert "there is no folder" in missing
    assert "nowhere" in missing
    assert "True" in outputs(client, "print('d' not in wb.connections)")[0][0]
