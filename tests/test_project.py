"""The project's own files agree with each other."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]


def test_the_conda_environment_lists_the_base_install_and_the_demo() -> None:
    """Asked for by issue 2: `environment.yml` is kept in step by a test."""
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert conda == [f"python{PROJECT['requires-python']}", "pip"]
    (demo,) = EXTRAS["demo"]
    extras = [line for name in ("tokens", "media", "charts", "prices", "replay") for line in EXTRAS[name]]
    assert Requirement(demo).extras == {"tokens", "media", "charts", "prices", "replay"}
    assert pip["pip"] == PROJECT["dependencies"] + extras


def test_constraints_are_exact_pins_without_addresses_or_paths() -> None:
    """Asked for by issue 2: pins live in a constraints file, without registry addresses."""
    assert [pin for pin in PINS if not re.fullmatch(r"[\w.-]+==[\w.!+]+", pin)] == []
    assert sorted(PINS, key=str.upper) == PINS


def test_everything_that_make_installs_is_pinned() -> None:
    pinned = {canonicalize_name(pin.split("==")[0]) for pin in PINS}
    extras = [
        name
        for group in (
            "demo",
            "tokens",
            "media",
            "charts",
            "prices",
            "replay",
            "dask",
            "openai",
            "anthropic",
            "test",
            "dev",
        )
        for name in EXTRAS[group]
    ]
    named = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"] + extras}
    assert named - pinned == {canonicalize_name(PROJECT["name"])}


def test_the_all_extra_is_the_union_of_the_users_extras() -> None:
    (everything,) = EXTRAS["all"]
    assert Requirement(everything).extras == EXTRAS.keys() - {"all", "test", "dev"}


def test_the_npm_server_is_pinned_exactly() -> None:
    package = json.loads((ROOT / "tests/npm/package.json").read_text())
    assert [v for v in package["dependencies"].values() if not re.fullmatch(r"\d+\.\d+\.\d+", v)] == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "environment.yml", "Makefile", ".ci/run"])
def test_no_project_file_names_a_registry_host(name: str) -> None:
    """We demand it: which mirror is used is the machine's business."""
    hosts = re.findall(r"(?:index-url|registry|find-links)[ =]|https?://", (ROOT / name).read_text())
    assert hosts == []


def _docstrings_of_tests() -> Iterator[str]:
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "node_modules" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    yield ast.get_docstring(node) or ""


def test_every_public_fault_is_held_by_a_test_that_names_it() -> None:
    """Asked for by issue 3; the last one, of Windows, by reasoning in an ADR."""
    named = set(re.findall(r"\bP\d\d\b", "\n".join(_docstrings_of_tests())))
    assert sorted({f"P{number:02}" for number in range(1, 42)} - named) == []
    assert "(P41)" in (ROOT / "docs/adr/0008-windows-loop.md").read_text()
