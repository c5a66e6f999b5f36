"""Records are cut where Python's csv module cuts them, however the text comes in pieces."""

import csv
import io
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from accous.table.readers import Position, RecordCutter, open_table

FIELDS = st.text(alphabet='ab1",\n ü', max_size=6)
TABLES = st.lists(st.lists(FIELDS, min_size=2, max_size=4), max_size=8)


@given(table=TABLES, cuts=st.lists(st.integers(0, 200), max_size=6), is_quoted=st.booleans())
def test_records_and_widths_are_those_of_the_csv_module(table, cuts, is_quoted):
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL).writerows(table)
    content = text.getvalue().encode()
    cutter, found = RecordCutter(","), []
    places = sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})
    for start, stop in pairwise(places):
        records = cutter.feed(content[start:stop])
        texts = [records.raw(number).decode() for number in range(len(records))]
        found += zip(texts, records.widths.tolist(), records.lines.tolist(), strict=True)
    assert not cutter.has_rest
    assert [next(csv.reader(io.StringIO(raw, newline=""))) for raw, _, _ in found] == table
    assert [width for _, width, _ in found] == [len(row) for row in table]
    line = 1
    for raw, _, found_line in found:
        assert found_line == line
        line += raw.count("\n") + 1


@given(table=st.lists(st.lists(FIELDS, min_size=2, max_size=2), min_size=1, max_size=8))
def test_a_table_can_be_taken_up_after_any_row(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *table])

    def rows_from(position: Position) -> tuple[list[tuple[str, str]], list[Position]]:
        reader = open_table(str(path))
        chunks = list(reader.chunks(["a", "b"], position))
        reader.close()
        rows = [row for chunk in chunks for row in chunk.frame.rows()]
        return rows, [chunk.position_after(row) for chunk in chunks for row in range(len(chunk.ends))]

    rows, positions = rows_from(Position())
    assert [[value or "" for value in row] for row in rows] == table
    for number, position in enumerate(positions, 1):
        assert rows_from(position)[0] == rows[number:]
