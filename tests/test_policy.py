"""Host policies: what their rules cover."""

from __future__ import annotations

import pytest

from workbench import Session
from workbench.content import Offer, Resource, Template
from workbench.policy import Rule, matching

RECORD = "crm://customer/4471/subscription"
ASKED = "Is customer 4471 still on the annual plan?"


@pytest.mark.parametrize(
    ("carry", "server", "covered"),
    [
        (RECORD, None, [("crm", RECORD), ("other", RECORD)]),
        (RECORD, "crm", [("crm", RECORD)]),
        ("crm://customer/*/subscription", None, []),  # nobody says which customers there are
        ("crm://customer/{id}/subscription", None, []),
        ("docs://style-guide", None, [("crm", "docs://style-guide")]),
    ],
)
def test_a_rule_covers_a_record_behind_a_template_by_its_uri(
    carry: str, server: str | None, covered: list[tuple[str, str]]
) -> None:
    templates = [Template(server=s, name="n", uri="crm://customer/{id}/subscription") for s in ("crm", "crm", "other")]
    guide = Resource(server="crm", name="guide", uri="docs://style-guide")
    offer = Offer(resources=(guide,), templates=tuple(templates))
    rule = Rule(carry=carry, server=server)
    assert matching([rule], offer) == [(rule, *each) for each in covered]


def test_every_turn_carries_the_record_on_screen_before_the_model_is_called() -> None:
    with Session(model="demo?miss=1") as wb:
        wb.connect("demo")
        without = wb.ask(ASKED)
        wb.policy(f"support sessions carry {RECORD}")
        turn = wb.ask(ASKED, new=True)
    assert "annual" not in without.answer.replace(ASKED, "")
    assert '"billing_cycle": "annual"' in turn.answer
    assert turn.totals.provider_calls == 1
    assert set(turn.reads().actor) == {"host"}
