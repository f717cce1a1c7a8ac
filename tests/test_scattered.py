"""A replay on the workers of a Dask scheduler: the same rows, whatever dies."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from tests.test_replay import MISSING, ROOT, server, told, turns
from workbench import Session, replaying
from workbench.errors import UsageError


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    os.environ["PYTHONPATH"] = str(ROOT)  # for the workers, which the tests' own modules are no part of
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as made,  # type: ignore[no-untyped-call]
    ):
        yield made


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session("demo") as made:
        made.connect("demo")
        yield made


def test_two_workers_give_the_same_rows(wb: Session, client: Client, tmp_path: Path) -> None:
    """Asked for by issue 6: the same on a two-worker LocalCluster with the same rows."""
    progress: list[int] = []
    store = tmp_path / "r.sqlite"
    found = wb.replay(
        turns(), "catalog,attach", MISSING, scheduler=client, store=store, live=lambda p: progress.append(p.done)
    )
    assert told(found) == told(wb.replay(turns(), "catalog,attach", MISSING)) and len(found.rows) == 24
    assert len(progress) > 4 and progress[-1] == 24, "results come back chunk by chunk"
    assert found.turn(found.rows[0]).spans[0].kind == "turn"
    address = client.scheduler.address  # type: ignore[union-attr]
    again = wb.replay(
        turns(), "catalog,attach", MISSING, scheduler=address, store=store, live=lambda p: progress.append(p.kept)
    )
    assert progress[-1] == 24 and told(again) == told(found)


def test_a_worker_that_dies_has_its_chunk_run_again_and_nothing_counts_twice(wb: Session, client: Client) -> None:
    def kill(progress: replaying.Progress) -> None:
        if progress.done and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    slow = "demo?first=0.02&next=0.05"
    found = wb.replay(turns(), "catalog,attach", slow, repeat=3, scheduler=client, concurrency=1, live=kill)
    assert killed and found.stopped is None
    assert told(found) == told(wb.replay(turns(), "catalog,attach", slow, repeat=3)) and len(found.rows) == 72


def test_workers_need_no_server_where_there_is_a_recording(wb: Session, client: Client, tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    live = wb.replay(turns()[:4], "catalog,attach", recording=recording)
    with Session("demo") as alone:
        found = alone.replay(turns()[:4], "catalog,attach", recording=recording, scheduler=client)
    assert told(found) == told(live)


def test_a_ceiling_is_shared_out(wb: Session, client: Client) -> None:
    found = wb.replay(turns(), "catalog", scheduler=client, most_tokens=30_000, concurrency=1)
    assert found.stopped is not None and "allowed" in found.stopped
    assert 1 <= len(found.rows) < 12


def test_what_workers_lack_is_said_before_anything_runs(wb: Session, client: Client, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no Dask scheduler at tcp://127"):
        wb.replay(turns(), scheduler="tcp://127.0.0.1:9")
    wb.connect("s", server=server())
    with pytest.raises(UsageError, match="s is an object of this process, which workers do not have"):
        wb.replay(turns(), scheduler=client)
    command = [sys.executable, "-m", "workbench.demo"]
    wb.connect("s", command=command, env={"KEY": "geheimgeheim"})
    with pytest.raises(UsageError, match="s is reached with secrets, which are not sent to workers"):
        wb.replay(turns(), scheduler=client)
    (gone := tmp_path / "server.py").write_text(
        "import runpy\nrunpy.run_module('workbench.demo', run_name='__main__')\n"
    )
    wb.connect("s", command=[sys.executable, str(gone)])
    gone.unlink()
    with pytest.raises(UsageError, match=r"2 of 2 workers cannot take part: .*server\.py"):
        wb.replay(turns(), scheduler=client)


def test_a_scheduler_without_workers_is_said(wb: Session) -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as empty,  # type: ignore[no-untyped-call]
        pytest.raises(UsageError, match="has no workers: start some with dask worker"),
    ):
        wb.replay(turns(), scheduler=empty)


def test_a_mismatch_of_versions_is_told_as_dask_tells_it(wb: Session, client: Client, monkeypatch: Any) -> None:
    def differing(check: bool = False) -> None:
        raise ValueError("Mismatched versions found: msgpack 1.0 and 2.0")

    monkeypatch.setattr(client, "get_versions", differing)
    with pytest.raises(UsageError, match="other versions of what they need:\nMismatched versions found"):
        wb.replay(turns(), scheduler=client)
