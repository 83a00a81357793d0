"""The chart of a result."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.portal.queries import create_item, run_query
from tests.portal.screens import visit_tab
from tests.support.raw import RawClient


@pytest.fixture
def query_page(any_look: Page, raw: RawClient, container: str) -> Page:
    for number in range(12):
        body = {"id": f"i{number}", "pk": "p", "kind": "abc"[number % 3], "n": number - 4}
        body["at"] = f"2030-01-{number + 1:02d}T00:00:00.0000000Z"
        create_item(raw, container, body)
    visit_tab(any_look, container, "query")
    return any_look


def chart(page: Page, query: str) -> Locator:
    run_query(page, query)
    page.get_by_role("tab", name="Chart").click()
    return page.get_by_role("group", name="chart of")


def test_groups_are_bars(query_page: Page) -> None:
    query = "SELECT c.kind, COUNT(1) AS items, SUM(c.n) AS total FROM c GROUP BY c.kind"
    drawn = chart(query_page, query)
    expect(drawn).to_have_attribute("aria-label", "Bar chart of total by kind, 3 points. "
        "Use the arrow keys to read the values; the Table tab lists them.")  # fmt: skip
    expect(drawn.locator(".bar")).to_have_count(3)
    query_page.get_by_label("Vertical").select_option("items")
    drawn.focus()
    query_page.keyboard.press("ArrowRight")
    expect(query_page.get_by_text("kind a: items 4")).to_be_visible()
    query_page.keyboard.press("End")
    expect(query_page.get_by_text("kind c: items 4")).to_be_visible()
    fits = "node => node.getBoundingClientRect().right <= innerWidth"
    assert drawn.locator("svg").evaluate(fits)


def test_times_are_a_line(query_page: Page) -> None:
    drawn = chart(query_page, "SELECT c.at, c.n FROM c WHERE c.n != 1 ORDER BY c.n DESC")
    expect(drawn).to_have_attribute("aria-label", "Line chart of n by at, 11 points. "
        "Use the arrow keys to read the values; the Table tab lists them.")  # fmt: skip
    expect(drawn.locator(".dot")).to_have_count(11)
    drawn.focus()
    query_page.keyboard.press("ArrowRight")  # sorted by time
    expect(query_page.get_by_text("at 2030-01-01T00:00:00.0000000Z: n -4")).to_be_visible()
    query_page.get_by_label("Horizontal").select_option("row number")
    expect(drawn.locator(".bar")).to_have_count(11)
    query_page.get_by_label("Chart type").select_option("line")
    expect(drawn.locator("path.line")).to_have_count(1)


def test_values_keep_their_digits(query_page: Page) -> None:
    big = "12345678901234567890"
    drawn = chart(query_page, f"SELECT 'x' AS name, {big}.5 AS v FROM c WHERE c.n = 1")
    expect(drawn.locator(".bar")).to_have_count(1)
    drawn.focus()
    query_page.keyboard.press("Home")
    shown = query_page.locator(".readout").inner_text()
    query_page.get_by_role("tab", name="Table").click()
    assert shown == f"name x: v {query_page.get_by_role('cell').last.inner_text()}"


def test_a_result_without_numbers(query_page: Page) -> None:
    run_query(query_page, "SELECT c.kind FROM c")
    query_page.get_by_role("tab", name="Chart").click()
    expect(query_page.get_by_role("heading", name="No numbers to draw")).to_be_visible()
    run_query(query_page, "SELECT VALUE c.n FROM c")  # the tab stays
    expect(query_page.locator("rect.bar")).to_have_count(12)


CHOICES: list[tuple[list[str], dict[str, Any]]] = [
    (['{"k":"a","n":1}'], {"x": "k", "y": "n", "kind": "bar"}),
    (['{"a":1,"b":2}'], {"x": "a", "y": "b", "kind": "line"}),
    (["1", "2"], {"x": "row number", "y": "value", "kind": "bar"}),
    (['{"id":"a","day":"2030-01-01","n":1}'], {"x": "day", "y": "n", "kind": "line"}),
    (['{"id":"a","o":{},"n":null}', '{"n":2}'], {"x": "id", "y": "n", "kind": "bar"}),
    (['{"_ts":1900000000,"n":2}'], {"x": "_ts", "y": "n", "kind": "line"}),
    (['{"n":1e400}', '{"n":"x"}'], {"x": "n", "y": None, "kind": "bar"}),
]


def test_the_first_choice_of_columns(page: Page) -> None:
    result = page.evaluate(
        """async (tables) => {
            const { chartColumns, defaultChoice } = await import("./views/query-chart.js");
            return tables.map((rows) => defaultChoice(chartColumns(rows)));
        }""",
        [rows for rows, _ in CHOICES],
    )
    assert result == [choice for _, choice in CHOICES]


def test_ticks_are_round(page: Page) -> None:
    ticks = "async ([low, high]) => (await import('./value-chart.js')).roundTicks(low, high)"
    assert page.evaluate(ticks, [0, 4]) == [0, 1, 2, 3, 4]
    assert page.evaluate(ticks, [-3, 7]) == [-4, -2, 0, 2, 4, 6, 8]
    assert page.evaluate(ticks, [5, 5]) == [5, 6]
    small = page.evaluate(ticks, [0.01, 0.04])
    assert small[0] <= 0.01
    assert small[-1] >= 0.04
