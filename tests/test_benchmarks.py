"""The benchmarks run, at sizes that take no time. What they measure is for `make bench`: nothing here looks at a clock."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import run


def test_the_benchmarks_compare_what_they_say_and_write_every_sample(tmp_path: Path) -> None:
    rows = [
        *run.kernel(1),
        *run.catalog(2, resources=7, page=3),
        *run.big_read(2, size=300_000),
        *run.searching(2, number=500),
        *run.own_cost(2, cases=2),
        *run.side_by_side(cases=2, alone=1, model="demo", at_once=2),
    ]
    assert [row.measure for row in rows] == [
        "wall s",
        "CPU s",
        "wall s",
        "wall ms a resource",
        "CPU s",
        "CPU s",
        "wall s",
        "wall s",
        "CPU s a turn",
        "wall s a turn",
    ]
    assert all(len(row.ours) == len(row.peer) == len(row.ratios) for row in rows)
    assert all(row.ratio > 0 for row in rows)
    assert "it imported none" in rows[0].note
    assert rows[2].note == "ours listed 7 of 7; load_mcp_resources read 3"
    assert rows[5].note == "both got all 300,000 bytes"
    run.save(rows, tmp_path / "new" / "bench.json")
    saved = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert [len(row["ours"]) for row in saved["rows"]] == [1, 1, 2, 2, 2, 2, 2, 2, 2, 1]
    lines = run.table(rows).splitlines()
    assert len(lines) > len(rows) and "aim 20" in lines[7]
