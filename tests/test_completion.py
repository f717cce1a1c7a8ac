"""TAB in our lines, asked of a real kernel as JupyterLab asks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

MATRIX = "sap-btp://sum-abap-v1"


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        reply = client.execute("%load_ext workbench\n%mcp connect demo", reply=True, timeout=60)
        assert reply["content"]["status"] == "ok"
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _completed(kernel: BlockingKernelClient, code: str) -> list[str]:
    """What `code` can become by TAB at its end."""
    content = kernel.complete(code, reply=True, timeout=60)["content"]
    assert content["status"] == "ok"
    return [code[: content["cursor_start"]] + match + code[content["cursor_end"] :] for match in content["matches"]]


@pytest.mark.parametrize(
    "typed, whole",
    [
        ("%mcp conn", ["%mcp connect"]),
        ("%mcp connect --head", ["%mcp connect --header"]),
        ("%mcp disconnect d", ["%mcp disconnect demo"]),
        ("%mcp attach sap-btp://sum", [f"%mcp attach {MATRIX}"]),
        (f"%mcp attach {MATRIX} --refresh t", [f"%mcp attach {MATRIX} --refresh turn"]),
        (f"%mcp read {MATRIX} --server d", [f"%mcp read {MATRIX} --server demo"]),
        ("%%agent --m", ["%%agent --model"]),
        ("%%agent --model de", ["%%agent --model demo"]),
        ("%%agent --approve a", ["%%agent --approve all", "%%agent --approve ask"]),
        (f"%mcp attach {MATRIX} --ref", [f"%mcp attach {MATRIX} --refresh"]),
        ("%mcp connect x -- dem", []),
        ("%%agent --pattern c", ["%%agent --pattern catalog"]),
        (
            "%mcp read crm://customer/45",
            ["%mcp read crm://customer/4502/subscription", "%mcp read crm://customer/4519/subscription"],
        ),
        ("%mcp prompt summarize_ticket t", ["%mcp prompt summarize_ticket ticket_id="]),
        ("%mcp prompt summarize_ticket ticket_id=T-104", ["%mcp prompt summarize_ticket ticket_id=T-1041"]),
        ("x = 1\n%mcp reso", ["x = 1\n%mcp resources"]),
    ],
)
def test_tab_completes_our_words_and_nothing_else(kernel: BlockingKernelClient, typed: str, whole: list[str]) -> None:
    assert _completed(kernel, typed) == whole


def test_tab_after_mcp_offers_every_subcommand(kernel: BlockingKernelClient) -> None:
    from workbench.magics import COMMANDS

    assert _completed(kernel, "%mcp ") == sorted(f"%mcp {name}" for name in COMMANDS)


def test_lines_that_are_not_ours_are_completed_as_ever(kernel: BlockingKernelClient) -> None:
    assert "import os; os.path" in _completed(kernel, "import os; os.pa")
    assert "%mcpx connect" not in _completed(kernel, "%mcpx conn")
