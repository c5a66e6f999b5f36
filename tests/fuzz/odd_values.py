"""Values and names that real files have and that programs stumble over."""

from __future__ import annotations

__all__ = ["ODD_LABELS", "ODD_NAMES", "ODD_VALUES"]

_NUMBERS = [
    *(
        "NaN",
        "nan",
        "-nan",
        "inf",
        "-inf",
        "Infinity",
        "1e400",
        "-1e400",
        "1e308",
        "-1.7e308",
        "1e150",
        "1e151",
        "1e-320",
    ),
    *("-0", "-0.0", "+5", "0x1F", "0b1", "1_000", "1,5", "1.5.5", "1e", "٣", "½", "9" * 400, "99999999999999999999"),
    *("0", "1", "-1", "1e9", "1e15", "1e16", "1e100", "4.9e-324", "2147483648", "-9223372036854775809"),
]
_DATES = [
    "2024-02-30",
    "2024-13-01",
    "9999-12-31",
    "0000-00-00",
    "0001-01-01",
    "12:30",
    "2024-01-01T25:00",
    "31.12.2024",
]
_WORDS = ["", " ", "true", "False", "None", "null", "NA", "?", "#N/A", "a", "b", "yes", "no", "-", "."]
_TEXTS = [
    *(
        '"',
        '""',
        '"""',
        '"a',
        'a"b',
        "'",
        ",",
        ";",
        "\t",
        "|",
        "\\",
        "\\n",
        "a\nb",
        "a\r\nb",
        "a\rb",
        "\r",
        "\n",
        "\x00",
    ),
    *("a\x00", "\x1b[31m", "\u202eabc", "é", "e\u0301", "\U0001f600", "\ufeff", "\u00a0", "\u2028", "\x85", "\ud800"),
    *(
        "<script>alert(1)</script>",
        "</script>",
        "&amp;",
        "[[title]]",
        "[[figures]]",
        "[[script]]",
        "{x}",
        "%s",
        "$array",
    ),
    *("=1+1", "[bold]x[/bold]", "[1, 2]", '{"a": 1}', "x" * 2000, "é" * 700),
]
ODD_VALUES = [*_NUMBERS, *_DATES, *_WORDS, *_TEXTS]
ODD_NAMES = [
    *(
        "",
        " ",
        "round",
        "prediction",
        "ratio",
        "p_class 0",
        "label",
        "y",
        "age",
        "AGE",
        "column_1",
        "column_2",
        "literal",
    ),
    *("embedding_0", "plan is missing", "day", "name with, comma", "a/b", "../x", ":", "labels.csv:y", "-o", "--force"),
    *_TEXTS,
    *("1", "1.5", "nan", "None", "len", "index", "__index__", "*", "^.*$", "^age$"),
]
ODD_LABELS = ["", "class 0", "class 1", "new class", "0", "1", "1.0", "01", "-1", "٣", "²", "true", *_TEXTS]
