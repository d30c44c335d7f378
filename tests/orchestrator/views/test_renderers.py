"""Each form of output read back with a reader of its own: every kind of cell, and texts that try to break out."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.results.answer import Answer, Column, Quantity, Table
from orchestrator.results.tables import RETRIEVAL_LAYOUT, layout_table
from orchestrator.text.values import guarded, visible
from orchestrator.text.wording import printed, share_text
from orchestrator.views.forms import FORMS, escape_latex, escape_markdown, render
from tests.support.rows import ROWS, row
from trainables.errors import ConfigError

COLUMNS = (
    Column("loss", "loss", hidden=True),
    Column("name", "loss"),
    Column("seeds", "seeds", unit="count"),
    Column("result", "mean ± sd", unit="rsum", shows="apart"),
    Column("difference", "against the winner", unit="rsum", signed=True, shows="both"),
    Column("p", "p", unit="p", latex="$p$"),
    Column("chance", "probability", unit="probability"),
    Column("share", "share", unit="share"),
    Column("time", "time", unit="seconds"),
    Column("i2t_map5", "mAP@5", unit="i2t_map5", group="i2t", decimals=2),
    Column("t2i_map5", "mAP@5", unit="t2i_map5", group="t2i"),
    Column("verdict", "verdict"),
)
RESULT = Quantity(197.84, 2.2, 192.4, 203.2)
BEST = ("nt_xent", "NT-Xent", 3, RESULT, None, None, 0.934, 0.72, 90, 0.504, 0.5041, "winner")
GAP = Quantity(-115.38, None, -119.8, -110.9)
WORSE = ("triplet_sh", "Triplet SH", 1000, Quantity(82.46), GAP, 0.0001, 0.9996, 1.0, 0, None, -0.0001, "worse")
ANSWER = Answer(
    "loss",
    "data/pets",
    "Which loss?",
    "NT-Xent beats Triplet SH.",
    "better",
    numbers={"difference": 115.38},
    table=Table(COLUMNS, (BEST, WORSE)),
    notes=("One note.", "Another, 5 % of it."),
)
CELLS = [
    ["NT-Xent", "3", "197.8 ± 2.2", "[192.4, 203.2]", "–", "–", "0.93", "72 %", "1.5 min", "0.50", "0.504", "winner"],
    [
        *("Triplet SH", "1,000", "82.5", "–", "−115.4 [−119.8, −110.9]", "< 0.001", "above 0.99", "100 %", "–", "–"),
        *("0.000", "worse"),
    ],
]
HEADINGS = [
    *("loss", "seeds", "mean ± sd", "95 % CI", "against the winner", "p", "probability", "share", "time"),
    *("mAP@5", "mAP@5", "verdict"),
]


HOSTILE = [
    "<script>alert(1)</script>",
    "a|b",
    "a\\|b",
    "a & b \\\\ \\end{tabular}",
    "=HYPERLINK(\"http://x\";'y')",
    " =1+1",
    "@x",
    "-2+3",
    "\t=1",
    "[bold red]x[/]",
    "[x] *y* _z_ `c` $m$ 100% #1 ~ ^ {b} \"q\" 'q'",
    'a,"b"\nc\r\nd',
    "\x00\x07\x1b[31mred\x7f\x9b",
    "\u202eevil\u2066",
    "\ud800",
    "--",
    "",
    " ",
]
texts = st.text(max_size=20)


def hostile(test):
    for text in HOSTILE:
        test = example(text)(test)
    return settings(max_examples=60)(given(texts)(test))


def answer_of(text):
    """The published layout with a loss of this name, whose text is in the headline and in a note as well."""
    table = layout_table(RETRIEVAL_LAYOUT, [row(text), row("nt_xent", number="2")])
    return Answer(table.key, "", table.question, text, table=table.table, notes=(*table.notes, text))


class Cells(HTMLParser):
    """Collects the texts of the cells of a page, row by row, and every tag."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.tags, self.inside = [], [], False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.inside = True
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def read_markdown(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [_hide(line).split("|")[1:-1] for line in lines]
    return [[_unescape(cell).strip() for cell in row] for row in rows]


def _hide(line):
    """Put a private character for each escaped one, so that what is left is Markdown's own."""
    return re.sub(r"\\([!-/:-@[-`{-~])", lambda match: chr(0xE000 + ord(match[1])), line)


def _unescape(cell):
    return "".join(chr(ord(one) - 0xE000) if 0xE020 < ord(one) < 0xE07F else one for one in cell)


def read_latex(text):
    """Return the lines of the tabular as (parts, width), having checked that groups are balanced."""
    bare = re.sub(r"\\[\\{}$&#%_]", lambda match: "\n" if match[0] == "\\\\" else "", text)
    assert "%" not in bare, "a comment would swallow the rest of the line"
    depth = 0
    for character in bare:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    body = bare.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.strip() and not re.match(r"\\(midrule|cmidrule)", line)]
    spans = [sum(int(size) - 1 for size in re.findall(r"\\multicolumn\{(\d+)\}", line)) for line in lines]
    return [line.count("&") + 1 + span for line, span in zip(lines, spans, strict=True)]


def test_markdown_has_every_cell():
    rows = read_markdown(render([ANSWER], "markdown"))
    assert rows[0] == [*HEADINGS[:9], "i2t mAP@5", "t2i mAP@5", "verdict"]
    assert rows[2:] == CELLS
    text = render([ANSWER], "markdown").splitlines()
    assert text[:3] == ["**pets · Which loss?**", "", "NT-Xent beats Triplet SH."]
    assert text[-3:] == ["One note.", "", "Another, 5 % of it."]


def test_html_has_every_cell():
    page = render([ANSWER], "html")
    groups, headings, *cells = Cells(page).rows
    # Behind an interval of its own column is its drawing.
    drawn = headings.index("95 % CI") + 1
    assert [[row[:drawn], row[drawn + 1 :]] for row in (headings, *cells)] == [
        [row[:drawn], row[drawn:]] for row in (HEADINGS, *CELLS)
    ]
    assert [text for text in groups if text] == ["i2t", "t2i"]
    texts = ["<h2>pets</h2>", "<h3>Which loss?</h3>", "<li>One note.</li>"]
    assert all(text in page for text in [*texts, '<p class="headline">NT-Xent beats Triplet SH.</p>'])


def test_the_terminal_has_every_cell():
    lines = render([ANSWER], "table").splitlines()
    assert lines[:2] == ["pets · Which loss?", "NT-Xent beats Triplet SH."]
    assert [re.split(r"\s{2,}", line.strip()) for line in lines[3:6]] == [HEADINGS, *CELLS]
    assert lines[6:] == ["One note.", "Another, 5 % of it."]


def test_latex_has_every_cell():
    text = render([ANSWER], "latex")
    assert set(read_latex(text)) == {len(HEADINGS)}
    assert text.splitlines()[:6] == [
        r"\begin{table}[t]",
        r"\centering",
        r"\caption{pets $\cdot$ Which loss? NT-Xent beats Triplet SH. One note. Another, 5 \% of it.}",
        r"\label{tab:data-pets-loss}",
        r"\begin{tabular}{lccccccccccl}",
        r"\toprule",
    ]
    assert r"\multicolumn{1}{c}{i2t} & \multicolumn{1}{c}{t2i}" in text and r"\cmidrule(lr){10-10}" in text
    assert text.splitlines()[-6:-3] == [
        r"\midrule",
        r"NT-Xent & $3$ & $197.8 {\scriptstyle \pm 2.2}$ & ${[}192.4, 203.2{]}$ & \textendash{} & \textendash{} & "
        r"$0.93$ & $72 \%$ & 1.5 min & $0.50$ & $0.504$ & winner \\",
        r"Triplet SH & $1{,}000$ & $82.5$ & \textendash{} & $-115.4 {[}-119.8, -110.9{]}$ & $< 0.001$ & above 0.99 & "
        r"$100 \%$ & \textendash{} & \textendash{} & $0.000$ & worse \\",
    ]


def test_latex_sets_datasets_and_models_of_the_papers_tables_across():
    text = render([layout_table(RETRIEVAL_LAYOUT, ROWS)], "latex")
    across = re.findall(r"\\multicolumn\{14\}\{(.)\}\{(.*?)\}", text)
    assert across == [("c", "Flickr30k"), ("l", "VSE++"), ("l", "VSRN"), ("c", "Flickr8k"), ("l", "WSABIE")]
    assert len(set(read_latex(text))) == 1


def test_json_has_all_that_an_answer_has():
    (written,) = json.loads(render([ANSWER], "json"))
    assert written == ANSWER.to_dict()
    assert written["table"]["rows"][0]["result"] == {"value": 197.84, "deviation": 2.2, "low": 192.4, "high": 203.2}


def test_csv_has_hidden_columns_and_the_parts_of_quantities():
    rows = list(csv.DictReader(io.StringIO(render([ANSWER, ANSWER], "csv"))))
    assert len(rows) == 4
    first, second = rows[:2]
    assert [first[key] for key in ("answer", "of", "loss", "result")] == ["loss", "data/pets", "nt_xent", "197.84"]
    assert [first[f"result_{part}"] for part in ("sd", "low", "high")] == ["2.2", "192.4", "203.2"]
    assert (second["difference"], second["difference_low"], second["result_sd"]) == ("-115.38", "-119.8", "")
    assert "difference_sd" not in first


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_without_a_table_or_rows_is_shown(form):
    plain = Answer("loss", "pets", "Which loss?", "No trial has ended.")
    empty = layout_table(RETRIEVAL_LAYOUT, [])
    text = render([plain, empty], form)
    assert text.endswith("\n") and ("No trial has ended" in text or form == "csv")


def test_unknown_form():
    with pytest.raises(ConfigError, match="one of table, json, csv, markdown, latex, html, got 'pdf'"):
        render([], "pdf")


@hostile
def test_no_text_breaks_out_of_a_form(text):
    answer, clean = answer_of(text), answer_of("plain")
    page = Cells(render([answer], "html"))
    # An empty headline has no paragraph, and a command in back quotes is code.
    tags, expected = (
        [tag for tag in one.tags if tag not in ("p", "code")] for one in (page, Cells(render([clean], "html")))
    )
    assert tags == expected
    assert page.rows[2][2] == printed(text)
    rows = read_markdown(render([answer], "markdown"))
    assert {len(row) for row in rows} == {16}
    if not re.search(r"[\ue000-\ue0ff]", text):
        assert rows[2][2] == printed(text)
    rendered = render([answer], "latex")
    assert read_latex(rendered) == read_latex(render([clean], "latex"))
    assert not re.search(r"\\\\\s*[\[*]", rendered), "a line break would take it for its argument"
    assert [row["loss"] for row in json.loads(render([answer], "json"))[0]["table"]["rows"]] == [text, "nt_xent"]


@hostile
def test_no_text_breaks_csv_or_computes(text):
    rendered = render([answer_of(text)], "csv").encode().decode()
    rows = list(csv.reader(io.StringIO(rendered, newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
    cell = rows[1][rows[0].index("loss")]
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert cell == guarded(text)
    assert cell.removeprefix("'") == visible(text).removeprefix("'")


@hostile
def test_no_text_breaks_the_terminal(text):
    shape = len(render([answer_of("plain")], "table").splitlines())
    lines = render([answer_of(text)], "table").splitlines()
    assert len(lines) in (shape, shape - 1, shape - 2), "an empty headline or note has no line"
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(lines))
    assert any(" ".join(printed(text).split()) in " ".join(line.split()) for line in lines)


@given(texts)
def test_hyper_parameters_and_datasets_are_escaped_too(text):
    rows = [row(dataset=f"d{text}", model=f"m{text}", parameters={f"p{text}": text}, verdict=text)]
    chosen = layout_table(RETRIEVAL_LAYOUT, rows)
    page = Cells(render([chosen], "html"))
    assert len(page.rows) == 3
    assert page.rows[2][1] == printed(f"m{text}")
    assert len(set(read_latex(render([chosen], "latex")))) == 1
    assert {len(one) for one in read_markdown(render([chosen], "markdown"))} == {len(page.rows[2])}


@pytest.mark.parametrize(
    ("escape", "text", "expected"),
    [
        (escape_latex, "a_b", r"a\_b"),
        (escape_latex, "100 % & #1", r"100 \% \& \#1"),
        (escape_latex, "\\{$}", r"\textbackslash{}\{\$\}"),
        (escape_latex, "[x]", "{[}x{]}"),
        (escape_latex, "a--b---c", "a-{}-b-{}--c"),
        (escape_markdown, "a|b_c", r"a\|b\_c"),
        (escape_markdown, "<b>", r"\<b\>"),
        (escape_markdown, "a-b (c)", "a-b (c)"),
    ],
)
def test_what_has_a_meaning_in_a_form_is_escaped(escape, text, expected):
    assert escape(text) == expected


@pytest.mark.parametrize(
    ("share", "signed", "text"),
    [
        (0.995, False, "99.5 %"),
        (0.005, False, "0.5 %"),
        (-0.005, True, "−0.5 %"),
        (0.9951, False, "99.5 %"),
        (0.994, False, "99 %"),
        (0.9996, False, "above 99.9 %"),
        (0.9996, True, "+100 %"),
        (1.0, False, "100 %"),
        (0.0, True, "+0 %"),
    ],
)
def test_only_a_whole_share_is_shown_as_all_or_nothing(share: float, signed: bool, text: str) -> None:
    assert share_text(share, signed=signed) == text
