"""A saved model behind HTTP (extra ``serve``): one process learns, any number read, and nothing acknowledged is lost.

How it works:

- The endpoints (`app.py`, on Starlette and uvicorn) read a request within its limits, check its rows (`bodies.py`), and
  pass a batch to the learner.
- The learner (`learner.py`) is one thread with one ordered, bounded queue. It takes the batches that are waiting,
  writes them to the log in one piece and syncs it (`log.py`), and only then runs their rounds, with the step of
  ``accous adapt``. A round replaces the model's state as a whole, so predictions read without a lock.
- Every so often the model is saved with the number of the last record that it contains, and the log starts again. A
  crash between the two is harmless: on start, records that the model contains are left out.
- What repeated requests and late labels need (idempotency, `log.py`) is saved just before the model, and brought up to
  date from the log like the model.
- Workers (`server.py`) are processes that load each save and only predict, on a port of their own.
- A timer takes a copy of the model and computes what people look at (`live.py`): requests get
  what it found last, with the number of rounds and rows of now.
"""

from accous.text import require_extra

for _package in ("polars", "starlette", "uvicorn", "msgspec", "prometheus_client"):
    require_extra(_package, "accous serve")
