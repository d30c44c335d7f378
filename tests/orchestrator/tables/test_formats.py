"""Each format read back with a reader of its own: shape, numbers, and texts that try to break out."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.tables import cells, cocos_tables, latex, markdown, render, retrieval_table
from orchestrator.text.values import guarded, visible
from tests.support.rows import ROWS, row

TABLES = [retrieval_table(ROWS, with_published=True), *cocos_tables(ROWS, with_published=True)]
FIRST = [
    "Flickr30k",
    "VSE++",
    "Triplet loss SH",
    "1",
    "margin 0.2",
    *("42.4 ± 0.5", "71.2 ± 0.5", "80.7 ± 0.5", "64.8 ± 0.5", "0.50 ± 0.01"),
    *("30.0 ± 0.5", "59.0 ± 0.5", "70.4 ± 0.5", "53.1 ± 0.5", "353.8 ± 1.6"),
    "better",
]
HEADINGS = [
    *("Dataset", "Model", "Loss", "#", "Hyper-parameters"),
    *("R@1", "R@5", "R@10", "avg. recall", "mAP@5", "R@1", "R@5", "R@10", "avg. recall", "rsum", "Verdict"),
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
    return settings(deadline=None, max_examples=60)(given(texts)(test))


def table_of(text):
    return retrieval_table([row(text), row("nt_xent", number="2")])


def shown(text):
    """What a reader is to see of a name, on one line."""
    return cells.printed(text)


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


def test_markdown():
    rows = read_markdown(render(TABLES[:1], "markdown"))
    assert rows[0] == [
        *HEADINGS[:5],
        *(f"i2t {name}" for name in HEADINGS[5:10]),
        *(f"t2i {name}" for name in HEADINGS[10:14]),
        *HEADINGS[14:],
    ]
    assert rows[2] == FIRST
    assert {len(row) for row in rows} == {16}


def test_html():
    page = Cells(render(TABLES[:1], "html"))
    assert page.rows[0] == ["", "i2t", "t2i", ""]
    assert page.rows[1] == HEADINGS
    assert page.rows[2] == FIRST
    assert page.rows[3][2] == "Triplet loss SH (published)"


def test_terminal():
    lines = render(TABLES[:1], "table").splitlines()
    (first,) = [line for line in lines if "better" in line]
    assert re.split(r"\s{2,}", first.strip()) == FIRST
    assert lines[-3] == "Published: Bleeker and de Rijke (ECIR 2022), table 1."
    assert [line.partition(":")[0] for line in lines[-2:]] == ["Chen2021", "Rao2022"]


def test_latex():
    text = render(TABLES[:1], "latex")
    assert text.startswith("\\begin{table}[t]\n")
    assert "\\begin{tabular}{lllccccccccccl}" in text
    assert "\\cmidrule(lr){4-8} \\cmidrule(lr){9-12}" in text
    assert "Triplet loss SH & 1 & margin 0.2 & $42.4 {\\scriptstyle \\pm 0.5}$ & " in text
    assert "& $0.50 {\\scriptstyle \\pm 0.01}$ &" in text
    assert "& $120.0$ & untested \\\\" in text


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.layout.name)
@pytest.mark.parametrize("verdict", ["", "tie"], ids=["without verdicts", "with verdicts"])
def test_latex_rows_are_as_wide_as_the_table(table, verdict):
    rows = [row(one.loss, model=one.model, verdict=verdict) for one in table.rows]
    chosen = retrieval_table(rows) if table is TABLES[0] else cocos_tables(rows)[0]
    text = render([chosen], "latex")
    (columns,) = re.findall(r"\\begin\{tabular\}\{(\w+)\}", text)
    assert set(read_latex(text)) == {len(columns)}
    assert len(columns) == 3 + len(chosen.layout.columns) + bool(verdict)


def test_csv_has_all_digits():
    rows = list(csv.DictReader(io.StringIO(render(TABLES, "csv"))))
    assert len(rows) == sum(len(table.rows) for table in TABLES)
    assert float(rows[0]["i2t_r1"]) == 42.44
    assert float(rows[0]["i2t_r1_std"]) == 0.52
    assert json.loads(rows[0]["parameters"]) == {"margin": 0.2}
    assert (rows[0]["table"], rows[0]["dataset"], rows[0]["published"]) == ("retrieval", "flickr30k", "false")
    assert rows[0]["i2t_negatives_per_batch"] == ""
    assert rows[1]["published"] == "true"


def test_json_has_all_digits_and_says_what_is_missing():
    tables = json.loads(render(TABLES, "json"))
    assert [table["name"] for table in tables] == ["retrieval", "cocos_triplet", "cocos_nt_xent", "cocos_smooth_ap"]
    assert tables[0]["rows"][0]["measures"]["i2t_r1"] == {"mean": 42.44, "std": 0.52, "seeds": 5}
    assert tables[0]["rows"][-1]["measures"]["i2t_r1"] is None


@hostile
def test_no_text_breaks_html(text):
    page = Cells(render([table_of(text)], "html"))
    clean = Cells(render([table_of("plain")], "html"))
    assert page.tags == clean.tags
    assert page.rows[2][2] == shown(text)


@hostile
def test_no_text_breaks_markdown(text):
    rows = read_markdown(render([table_of(text)], "markdown"))
    assert len(rows) == 4
    assert {len(row) for row in rows} == {16}
    if not re.search(r"[\ue000-\ue0ff]", text):
        assert rows[2][2] == shown(text)


@hostile
def test_no_text_breaks_latex(text):
    rendered = render([table_of(text)], "latex")
    assert read_latex(rendered) == read_latex(render([table_of("plain")], "latex"))
    assert not re.search(r"\\\\\s*[\[*]", rendered), "a line break would take it for its argument"


@hostile
def test_no_text_breaks_json(text):
    rows = json.loads(render([table_of(text)], "json"))[0]["rows"]
    assert [one["loss"] for one in rows] == [text, "nt_xent"]


@hostile
def test_no_text_breaks_csv_or_computes(text):
    rendered = render([table_of(text)], "csv").encode().decode()
    rows = list(csv.reader(io.StringIO(rendered, newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
    cell = rows[1][3]
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert cell == guarded(text)
    assert cell.removeprefix("'") == visible(text).removeprefix("'")


@hostile
def test_no_text_breaks_the_terminal(text):
    lines = render([table_of(text)], "table").splitlines()
    assert len(lines) == len(render([table_of("plain")], "table").splitlines())
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(lines))
    assert any(" ".join(shown(text).split()) in " ".join(line.split()) for line in lines)


@given(texts)
@settings(deadline=None)
def test_hyper_parameters_and_datasets_are_escaped_too(text):
    chosen = retrieval_table([row(dataset=f"d{text}", model=f"m{text}", parameters={f"p{text}": text}, verdict=text)])
    page = Cells(render([chosen], "html"))
    assert len(page.rows) == 3
    assert page.rows[2][1] == shown(f"m{text}")
    assert len(set(read_latex(render([chosen], "latex")))) == 1
    assert {len(one) for one in read_markdown(render([chosen], "markdown"))} == {len(page.rows[2])}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b", r"a\_b"),
        ("100 % & #1", r"100 \% \& \#1"),
        ("\\{$}", r"\textbackslash{}\{\$\}"),
        ("[x]", "{[}x{]}"),
        ("a--b---c", "a-{}-b-{}--c"),
    ],
)
def test_latex_escapes(text, expected):
    assert latex.escape(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("a|b_c", r"a\|b\_c"), ("<b>", r"\<b\>"), ("a-b (c)", "a-b (c)")])
def test_markdown_escapes(text, expected):
    assert markdown.escape(text) == expected
