"""The report in a real browser: drawn, sorted, filtered, on a phone, in the dark, and asking nobody for anything."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.directory import TrackedRuns
from orchestrator.journal.history import History
from orchestrator.report.page import Page as ReportPage
from orchestrator.report.queries import WAYS, Item, Query, ShownQueries
from orchestrator.report.render import render_page
from orchestrator.results.answer import Answer, Column, Quantity, Table
from orchestrator.views.html import sections_page
from tests.browser.opened_page import CHART_BUTTONS, DESKTOP, PHONE, SIZES, opened
from tests.support.histories import Author, repeated, search

pytestmark = pytest.mark.proof

EVIL = "<script>document['title']='it ran'</script>"


Report = Callable[[int], Path]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a search of so many trials, written once."""
    folder = tmp_path_factory.mktemp("reports")

    def write(trials: int) -> Path:
        path = folder / f"{trials}.html"
        if not path.exists():
            path.write_text(render_page(ReportPage(search(trials))), encoding="utf-8")
        return path

    return write


def headings(page: Page) -> list[str]:
    """Return the keys of the columns that are shown."""
    shown = page.locator("#trials-table th:not([hidden])")
    return list(shown.evaluate_all("cells => cells.map((cell) => cell.dataset.key)"))


def cells(page: Page, key: str) -> list[str]:
    """Return the texts of a column that is shown."""
    place = headings(page).index(key) + 1
    return page.locator(f"#trials-table tr.row td:nth-child({place})").all_inner_texts()


@pytest.mark.parametrize("trials", [1, 12, 1000])
@pytest.mark.parametrize("touched", [False, True], ids=["desktop", "phone"])
def test_page_is_drawn_without_complaint_request_or_sideways_scroll(
    browser: Browser, report: Report, screenshots: Path, trials: int, touched: bool
) -> None:
    path = report(trials)
    sizes = {label: size for label, size in SIZES.items() if (size == PHONE) == touched}
    with opened(browser, path.as_uri(), PHONE if touched else DESKTOP) as shown:
        before = shown.page.evaluate("document.getElementById('reproduce').getBoundingClientRect().top")
        shown.draw_all()
        after = shown.page.evaluate("document.getElementById('reproduce').getBoundingClientRect().top")
        assert after == pytest.approx(before, abs=1), "the page moved when its charts were drawn"
        empty = shown.page.evaluate(
            "[...document.querySelectorAll('.plot')].filter((plot) => !plot.querySelector("
            "'.point, .js-line, .contourlayer path, .barlayer path')).length"
        )
        assert empty == 0
        assert shown.page.locator("#trials .scatterlayer .point").count() == trials
        shown.draw(f"report-{trials}", screenshots, sizes, first_view=[".facts", ".answer .headline"])
        assert [url for url in shown.requests if url != path.as_uri() and not url.startswith(("data:", "blob:"))] == []


def test_charts_are_drawn_though_nobody_came_near_and_are_sent_nowhere(browser: Browser, report: Report) -> None:
    with opened(browser, report(12).as_uri()) as shown:
        # Nobody scrolls: a page that is captured or saved whole has all of its charts.
        shown.page.wait_for_selector("#cocos [data-drawn] .point", state="attached")
        missing = "[...document.querySelectorAll('.plot')].filter((plot) => !('drawn' in plot.dataset)).length"
        shown.wait_until(f"{missing} === 0")
        assert shown.page.evaluate("scrollY") == 0
        titles = shown.page.locator(".modebar-btn").evaluate_all("buttons => buttons.map(b => b.dataset.title)")
        assert set(titles) == CHART_BUTTONS
        settings = shown.page.evaluate(
            "[...document.querySelectorAll('.js-plotly-plot')].map((plot) => plot._context)"
            ".map((context) => [context.showSendToCloud, context.plotlyServerURL].join())"
        )
        assert set(settings) == {"false,"}
        clipped = """[...document.querySelectorAll('.answer-table td')]
          .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length"""
        assert shown.page.evaluate(clipped) == 0
        assert shown.page.locator("#slices .plot").count() == 4
        shown.page.locator("#slices select").select_option(label="NT-Xent")
        shown.wait_until("document.querySelectorAll('#slices .plot').length === 1")
        shown.page.wait_for_selector("#slices .xtitle:has-text('τ')")


def test_intervals_of_a_table_lie_below_each_other_and_below_their_ticks(browser: Browser, tmp_path: Path) -> None:
    setting = "long setting " * 9
    table = Table(
        (
            Column("name", "loss"),
            Column("result", "mean", unit="test/rsum", shows="apart"),
            Column("setting", "setting"),
            Column("p", "p", unit="p"),
        ),
        tuple((f"loss {n}", Quantity(100.0 * n, 1.0, 90.0 * n, 110.0 * n), setting * n, None) for n in (1, 2, 3)),
    )
    answers = [Answer("loss", "", "Which loss?", "A.", "tie", table=table)]
    (tmp_path / "a.html").write_text(sections_page("t", "e", [("", "", "", answers)]), encoding="utf-8")
    for size in (DESKTOP, PHONE):
        with opened(browser, (tmp_path / "a.html").as_uri(), size) as shown:
            boxes = shown.page.evaluate(
                """[...document.querySelectorAll('.interval, .ticks')].map((each) => {
                  const box = each.getBoundingClientRect();
                  return [Math.round(box.left), Math.round(box.width)];
                })"""
            )
            assert len(boxes) == 4 and len({tuple(box) for box in boxes}) == 1
            assert shown.page.evaluate("document.documentElement.scrollWidth") == size[0]
            assert shown.page.locator("td.missing").first.is_visible() == (size == DESKTOP), "a card leaves them out"
            assert shown.complaints == []


def test_print_has_no_tools_and_keeps_headings_with_texts(browser: Browser, report: Report, screenshots: Path) -> None:
    with opened(browser, report(12).as_uri()) as shown:
        shown.draw_all()
        shown.page.emulate_media(media="print")
        for tools in (".bar", ".tools", ".pager .buttons", ".figure-head select", ".modebar-container"):
            assert not any(each.is_visible() for each in shown.page.locator(tools).all()), tools
        style = "(selector) => getComputedStyle(document.querySelector(selector))"
        assert shown.page.evaluate(f"({style})('#search h2').breakAfter") == "avoid"
        assert shown.page.evaluate(f"({style})('#curves .figure-head').breakAfter") == "avoid"
        assert shown.page.evaluate(f"({style})('#curves').breakInside") == "avoid"
        shown.page.pdf(path=screenshots / "report-12-print.pdf", format="A4")


def test_leaderboard_sorts_with_the_keyboard_alone_and_missing_values_last(browser: Browser, report: Report) -> None:
    with opened(browser, report(12).as_uri()) as shown:
        page = shown.page
        values = [float(text) for text in cells(page, "value")]
        assert values == sorted(values, reverse=True)
        header = page.locator("th button", has_text="val rsum")
        header.focus()
        page.keyboard.press("Enter")
        assert [float(text) for text in cells(page, "value")] == values[::-1]
        assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
        page.locator("th button", has_text="Trial").click()
        assert cells(page, "trial") == sorted(cells(page, "trial"))
        key = "parameter temperature"
        header = page.locator("th button", has_text="τ")
        for direction in ("descending", "ascending"):
            header.focus()
            page.keyboard.press("Enter")
            values = [float(text) for text in cells(page, key) if text]
            assert len(values) == 4 and values == sorted(values, reverse=direction == "descending")
            assert cells(page, key)[4:] == [""] * 8
            assert page.locator("th[aria-sort]").evaluate_all("all => all.map((cell) => cell.ariaSort)") == [direction]


def test_the_address_keeps_filters_order_and_columns_without_a_reload(browser: Browser, report: Report) -> None:
    counter = "cocos/i2t_negatives_per_query"
    with opened(browser, report(200).as_uri()) as shown:
        page = shown.page
        assert counter not in headings(page)
        page.locator("#choose summary").click()
        page.locator(f"#choose input[value='{counter}']").check()
        page.locator("#by-study").select_option("NT-Xent")
        assert "parameter margin" not in headings(page), "the columns are those of the study that is shown"
        page.locator("#find").fill("finished")
        page.locator("th button", has_text="cocos i2t negatives a query").click()
        counts = [float(text) for text in cells(page, counter)]
        assert len(counts) > 5 and counts == sorted(counts, reverse=True)
        before, names, address = headings(page), cells(page, "trial"), page.url
        assert len([url for url in shown.requests if url.startswith("file:")]) == 1
        again = page.context.new_page()
        again.goto(address)
        assert (headings(again), cells(again, "trial")) == (before, names)
        assert again.locator(f"#choose input[value='{counter}']").is_checked()
        assert again.locator("#find").input_value() == "finished"
        # What the page does not have, and what somebody cut short, is left out.
        again.goto(f"{report(200).as_uri()}?study={EVIL}&state=none&sort=-{EVIL}&columns=[%22")
        assert len(cells(again, "trial")) == 20
        assert again.title() == "flickr8k-losses – experiment report"
        assert shown.complaints == []


def test_a_trial_leads_to_its_run_in_mlflow_where_the_address_is_one(browser: Browser, tmp_path: Path) -> None:
    history = search(3)
    first = next(iter(history.trials))
    for server, run, links in (
        ("https://mlflow.example/", "0a1b", ["https://mlflow.example/#/experiments/7/runs/0a1b"]),
        ("javascript:document.title=1//", "0a1b", []),
        ("https://mlflow.example", "../../x", []),
    ):
        runs = TrackedRuns(server, "", "7", {first: run})
        (tmp_path / "linked.html").write_text(render_page(ReportPage(history, runs=runs)), encoding="utf-8")
        with opened(browser, (tmp_path / "linked.html").as_uri()) as shown:
            shown.page.locator("#find").fill(first)
            shown.page.locator(".opener").click()
            assert shown.page.locator("tr.details a").evaluate_all("all => all.map((link) => link.href)") == links


HOVER = """(key) => {
  const plot = [...document.querySelectorAll(`#${key} .plot`)].at(-1);
  const curve = plot.data.findIndex((trace) => trace.hovertemplate?.includes("hovertext"));
  Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: 0 }]);
  const text = [...plot.querySelectorAll(".hoverlayer .hovertext text")].map((each) => each.textContent).join(" ");
  return { text, id: plot.data[curve].text[0] };
}"""


@pytest.mark.parametrize("key", ["trials", "curves", "parallel", "slices", "contours", "cocos"])
def test_a_dot_shows_its_trial_with_all_parameters(browser: Browser, report: Report, key: str) -> None:
    with opened(browser, report(200).as_uri()) as shown:
        shown.draw_all()
        hovered = shown.page.evaluate(HOVER, key)
        row = shown.page.evaluate("(id) => brought.rows.find((row) => row.id === id)", hovered["id"])
        keys = shown.page.locator("#trials-table th").evaluate_all("all => all.map((cell) => cell.dataset.key)")
        texts = dict(zip(keys, row["shown"], strict=True))
        facts = [f"{key.removeprefix('parameter ')}: {text}" for key, text in texts.items() if key[:9] == "parameter"]
        facts = [fact for fact in facts if not fact.endswith(": ")]
        assert facts and all(fact in hovered["text"] for fact in [texts["trial"], *facts]), hovered
        assert f"val rsum: {texts['value']}" in hovered["text"]
        assert shown.complaints == [], "the policy allows all that a chart shows under the pointer"


def test_axes_are_logarithmic_where_the_space_is_and_colours_have_a_scale(browser: Browser, report: Report) -> None:
    with opened(browser, report(200).as_uri()) as shown:
        shown.draw_all()
        page = shown.page
        page.locator("#slices select").select_option(label="NT-Xent")
        page.wait_for_selector("#slices .xtitle:has-text('τ')")
        axis = "document.querySelector('#slices .plot')._fullLayout.xaxis"
        assert page.evaluate(f"{axis}.type") == "log"
        assert page.locator("#slices .xtick text").all_text_contents() == ["0.01", "0.03", "0.1", "0.3", "1"]
        assert page.locator("#contours .colorbar").count() == page.locator("#contours .plot").count() == 3
        assert page.locator("#parallel .annotation").count() >= 4 * 5
        fills = page.locator("#slices .point").evaluate_all("all => all.map((each) => each.style.fill)")
        assert len(set(fills)) > 10


def test_leaderboard_filters_pages_and_opens_rows(browser: Browser, report: Report) -> None:
    with opened(browser, report(1000).as_uri()) as shown:
        page = shown.page
        assert page.locator("#count").inner_text() == "1–20 of 1,000 trials"
        first = cells(page, "trial")
        page.locator("#next").click()
        assert not set(first) & set(cells(page, "trial"))
        page.locator("#by-state").select_option("diverged")
        assert set(cells(page, "state")) == {"diverged"}
        page.locator("#by-state").select_option("")
        page.locator("#find").fill("NT-Xent 0011")
        assert cells(page, "trial") == ["NT-Xent 0011"]
        assert page.locator("#count").inner_text() == "1 trial, 1,000 in all"
        page.locator(".opener").focus()
        page.keyboard.press("Enter")
        assert "train/loss is nan" in page.locator("tr.details").inner_text()
        assert page.evaluate("document.activeElement.className") == "opener"
        page.locator("#find").fill("no such trial")
        assert page.locator("#count").inner_text() == "0 trials, 1,000 in all"


def test_click_on_a_dot_finds_its_trial(browser: Browser, report: Report) -> None:
    with opened(browser, report(12).as_uri()) as shown:
        shown.draw_all()
        dot = shown.page.locator("#trials .scatterlayer .point").first
        dot.scroll_into_view_if_needed()
        box = dot.bounding_box()
        assert box is not None
        shown.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        shown.page.wait_for_selector("#trials .hoverlayer .hovertext")
        shown.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        shown.page.wait_for_selector("tr.details")
        assert len(cells(shown.page, "trial")) == 1


def test_a_dot_of_a_repeated_setting_finds_the_row_of_the_setting(browser: Browser, tmp_path: Path) -> None:
    history, again = repeated()
    path = tmp_path / "again.html"
    path.write_text(render_page(ReportPage(history)), encoding="utf-8")
    with opened(browser, path.as_uri()) as shown:
        assert "val rsum: 31.0 (mean of 2)" in shown.page.evaluate("(id) => leaderboard.about(id)", again)
        shown.page.evaluate("(id) => leaderboard.find(id)", again)
        shown.page.wait_for_selector("tr.details")
        assert cells(shown.page, "trial") == ["NT-Xent 0000"]


def test_theme_follows_the_system_until_the_button_is_pressed(browser: Browser, report: Report) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, report(1).as_uri(), scheme="dark") as shown:
        dark = shown.page.evaluate(ground)
        shown.draw_all()
        ink = "document.querySelector('#trials .xtick text').style.fill"
        dark_ink = shown.page.evaluate(ink)
        shown.page.locator("#theme").click()
        assert shown.page.evaluate(ground) != dark
        shown.wait_until(f"{ink} !== {dark_ink!r}")
        shown.page.reload()
        assert shown.page.evaluate("document.documentElement.dataset.theme") == "light"


def hostile() -> History:
    """Return a search whose every name is an attack."""
    author = Author()
    author.history.experiment = BegunExperiment.of(
        {**author.history.experiment.values, "description": f"{EVIL} \x00 \u202e end"}
    )
    for number in range(12):
        trial = author.create("nt_xent", number, {EVIL: float(number), "word": ["a<b", "c&amp;d"][number % 2]}, "<i>x")
        author.epoch(trial, 1, {"val/rsum": 100.0 + number, "cocos/i2t_<b>count": 1.0 * number}, "finished")
    author.end(author.create("nt_xent", 12, {EVIL: 1.0}, "<i>x"), "failed", f"{EVIL}\x1b[31m")
    return author.finish()


def test_hostile_strings_are_text(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    caption = Item(f"{EVIL} a dog\x00\x07 runs\u202e", score=0.5, correct=True)
    picture = Item('<img src=x onerror="document.title=1">.jpg', score=0.4)
    rank = {EVIL: 1.0}
    queries = [[Query(picture, rank, [caption])], [Query(caption, rank, [picture])]]
    asked = ShownQueries("pets test", groups=dict(zip(WAYS, queries, strict=True)))
    (tmp_path / "hostile.html").write_text(render_page(ReportPage(hostile(), queries=[asked])), encoding="utf-8")
    with opened(browser, (tmp_path / "hostile.html").as_uri()) as shown:
        shown.draw_all()
        page = shown.page
        page.screenshot(path=screenshots / "report-hostile.png", full_page=True)
        texts = page.locator("#queries .item-text").all_inner_texts()
        assert texts == [picture.text, *[f"{EVIL} a dog\\x00\\x07 runs\\u202e"] * 2, picture.text]
        assert page.locator("#queries script, #queries img").count() == 0
        assert page.title() == "flickr8k-losses – experiment report"
        assert page.locator(".lead").inner_text() == f"{EVIL} \\x00 \\u202e end"
        assert EVIL in page.locator("#slices .xtitle").all_text_contents()
        assert "c&amp;d" in " ".join(page.locator("#slices .xtick text").all_text_contents())
        assert EVIL in page.locator("#trials-table th").all_text_contents()
        assert f"{EVIL}: 0" in page.evaluate(HOVER, "slices")["text"]
        page.locator("#find").fill("0012")
        page.locator(".opener").click()
        assert f"{EVIL}\\x1b[31m" in page.locator("tr.details").inner_text()
        assert page.locator("main script, main b, main i").count() == 0
        assert shown.complaints == []
