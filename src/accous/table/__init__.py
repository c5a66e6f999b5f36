"""People's tables: a model on the columns of a file or a frame, and the jobs behind the commands.

`readers` reads and writes formats, `columns` turns columns into features, `checks` finds what misleads, `kinds` reads
labels. `model` is `TableModel`: one frame in, one frame out; `snapshot` is what it can say. `options` declares what a
command can be told; `fit`, `adapt` and `labels` run the commands, with `rows` on their way through a model, `runs` what
a run has done so far, and `history` what happened in the rounds. `store` remembers predictions and their labels in
SQLite.
"""

from __future__ import annotations

from accous.text import require_extra

require_extra("polars", "accous.table")
