"""The endpoints of the service as an application of Starlette: predict, learn, count labels, look, and the pages."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qs, parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from accous.report.page import page_asset
from accous.service.auth import COOKIE, Gate, TokenScope, cookie_of
from accous.service.bodies import (
    CHOICES,
    CLOSE,
    ENCODINGS,
    Batch,
    BatchReader,
    HttpError,
    Limits,
    Result,
    json_result,
    prediction_content,
    prediction_sets,
    too_large,
    unpack,
)
from accous.service.interface import ARROW_EXAMPLE, arrow_example, interface_of, interface_page
from accous.service.learner import Learner, Parsed
from accous.service.live import Events, Metrics, ReadingTimer, read_event_id
from accous.service.log import Record
from accous.service.protocols import Inference, Invocations
from accous.table.model import RoundResult, TableModel
from accous.text import LOGGER

# --- The parts of a service that its endpoints use: the model, and whoever learns, reads and counts


@dataclass(frozen=True)
class Served:
    """A model to predict with, and the reader of its rows."""

    table_model: TableModel
    reader: BatchReader


@dataclass(kw_only=True)
class Service:
    """What the endpoints use.

    Attributes
    ----------
    name : str
        Of the model, in addresses.
    served : callable
        Returns the model to predict with.
    limits : Limits
    gate : Gate
    metrics : Metrics
    events : Events
    learner : Learner, optional
        None in a worker, which only predicts.
    readings : ReadingTimer, optional
        None in a worker.
    learns_first : bool
        Whether rounds learn from their rows before they predict them.
    is_ready : bool
    n_connections : callable
        Returns how many there are.
    n_predicted : int
        Rows predicted since the start.
    n_streams : int
        Open streams of events.
    bodies : Intake
        Reads the bodies of requests.
    """

    name: str
    served: Callable[[], Served]
    limits: Limits
    gate: Gate
    metrics: Metrics
    events: Events = field(default_factory=Events)
    learner: Learner | None = None
    readings: ReadingTimer | None = None
    learns_first: bool = False
    is_ready: bool = True
    n_connections: Callable[[], int] = lambda: 0
    n_predicted: int = 0
    n_streams: int = 0
    bodies: Intake = field(init=False)
    # Ids of predictions in different processes differ.
    _origin: str = field(default_factory=lambda: f"p{secrets.token_hex(6)}")
    _n_predictions: int = 0
    # Small requests are predicted in the event loop, others in threads.
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.bodies = Intake(self.limits)

    def require_learner(self) -> Learner:
        """Return who learns; refuse in a worker."""
        if self.learner is None:
            text = "This process only predicts: send batches and labels to the service's own port."
            raise HttpError(404, "reads_only", text)
        return self.learner

    def require_readings(self) -> ReadingTimer:
        """Return who reads the model; refuse in a worker."""
        if self.readings is None:
            raise HttpError(404, "reads_only", "This process only predicts: ask the service's own port.")
        return self.readings

    def require_ready(self) -> int:
        """Return the number of rounds; refuse while requests are not welcome."""
        if not self.is_ready or (self.learner is not None and not self.learner.is_alive):
            text = "The service is starting or stopping."
            raise HttpError(503, "not_ready", text, headers={"retry-after": "1"})
        return self.n_rounds

    @property
    def n_rounds(self) -> int:
        """Rounds that the model has learned from: every one that was acknowledged."""
        return int(self.served().table_model.model.n_rounds_)

    def up_to_date(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return a reading with the rounds and rows of now; all the rest is as of an earlier round, which it says."""
        found = content | {"rounds": self.n_rounds, "as_of_round": content["rounds"]}
        if "rows" in content and self.learner is not None:
            found["rows"] = self.learner.n_rows
        return found

    def counts(self) -> dict[str, float]:
        """Return what was done so far."""
        return {"rounds": float(self.n_rounds), "predicted_rows": float(self.n_predicted)}

    def predict(self, served: Served, batch: Batch, *, needs_ratio: bool, model: Any = None) -> RoundResult:
        """Predict rows, all from one round; of this copy of the model, if there is one."""
        played = served.table_model.predict_rows(batch.X, needs_ratio=needs_ratio, model=model)
        self.metrics.predicted_rows.inc(len(batch.X))
        with self._counting:
            self.n_predicted += len(batch.X)
        return played

    def predicted(self, served: Served, batch: Batch) -> dict[str, Any]:
        """Return the predictions of rows, ready for JSON."""
        # One copy for all parts: learning may go on between them.
        model = copy(served.table_model.model)
        played = self.predict(served, batch, needs_ratio="ratio" in batch.include, model=model)
        with self._counting:
            self._n_predictions += 1
            origin = f"{self._origin}-{self._n_predictions}"
        content = prediction_content(served.table_model, played, batch, origin=origin, salt=served.reader.salt)
        sets = prediction_sets(model, batch)
        return content if sets is None else content | {"sets": sets}


# --- Bodies of requests: read within the limits, and what is large is unpacked and decoded aside, few at a time


T = TypeVar("T")
# Reading more than this takes longer than other requests should wait.
_LARGE = 32 << 10
# What is still read of a body that is refused, so that its sender gets to see why.
_DRAINED_BYTES, _DRAINED_SECONDS = 4 << 20, 1.0
_DECODED_AT_ONCE = 2


class Intake:
    """Reads bodies; used in the event loop only.

    Parameters
    ----------
    limits : Limits
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._n_bytes = limits, 0
        self._decoding = asyncio.Semaphore(_DECODED_AT_ONCE)

    async def read(self, request: Request, function: Callable[[bytes], T]) -> T:
        """Call a function with the body of a request, in a thread if that takes long; return what it returns."""
        encoding = request.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", *ENCODINGS):
            text = f"The header Content-Encoding is {encoding[:40]!r}: use gzip, deflate or none."
            raise HttpError(415, "unsupported_encoding", text, headers=CLOSE)
        pieces: list[bytes] = []
        try:
            await self._receive(request, pieces)
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if encoding in ENCODINGS:
                async with self._decoding:
                    return await asyncio.to_thread(self._unpacked, body, function)
            if len(body) <= _LARGE:
                return function(body)
            async with self._decoding:
                return await asyncio.to_thread(function, body)
        finally:
            self._n_bytes -= sum(map(len, pieces))

    def _unpacked(self, body: bytes, function: Callable[[bytes], T]) -> T:
        return function(unpack(body, self._limits.body_bytes))

    async def _receive(self, request: Request, pieces: list[bytes]) -> None:
        """Add the pieces of a body as they come; refuse one that is too long or too slow as soon as that shows."""
        loop, limit, n_bytes = asyncio.get_running_loop(), self._limits.body_bytes, 0
        declared = request.headers.get("content-length", "")
        error = too_large(limit, CLOSE) if declared.isdigit() and int(declared) > limit else None
        try:
            async with asyncio.timeout(_DRAINED_SECONDS if error else self._limits.body_seconds) as end:
                async for piece in request.stream():
                    n_bytes += len(piece)
                    if error is not None:
                        if n_bytes > limit + _DRAINED_BYTES:
                            break
                        continue
                    error = self._refused(n_bytes, len(piece))
                    if error is None:
                        pieces.append(piece)
                        self._n_bytes += len(piece)
                    else:
                        end.reschedule(loop.time() + _DRAINED_SECONDS)
        except TimeoutError:
            error = error or HttpError(408, "too_slow", "The body did not arrive in time.", headers=CLOSE)
        if error is not None:
            raise error

    def _refused(self, n_bytes: int, n_more: int) -> HttpError | None:
        if n_bytes > self._limits.body_bytes:
            return too_large(self._limits.body_bytes, CLOSE)
        if self._n_bytes + n_more > self._limits.held_bytes:
            text = "Too many large requests are arriving at the same time: try again in a second."
            return HttpError(503, "too_busy", text, headers={"retry-after": "1"} | CLOSE)
        return None


_MOST_OPTIONS = 20


def options_of(request: Request, *allowed: str, otherwise: str = "this address takes none") -> dict[str, str]:
    """Return what the address says after the question mark; refuse what is not allowed there.

    Parameters
    ----------
    request : Request
    *allowed : str
        The names that may be there.
    otherwise : str
        What the error says if none may be.
    """
    query = request.scope["query_string"]
    if not query:
        return {}
    try:
        text = query.decode("ascii")
        found = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_OPTIONS, errors="strict"))
    except ValueError:
        raise HttpError(400, "malformed_query", "What follows the question mark cannot be read.") from None
    unknown = next((name for name in found if name not in allowed), None)
    if unknown is not None:
        advice = f"use {', '.join(allowed)}" if allowed else otherwise
        raise HttpError(422, "invalid", f"The address has the parameter {unknown[:40]!r}: {advice}.")
    return found


# --- The endpoints of our own interface: predict, learn, count labels, and look


_LONGEST_KEY = 255
_EVENT_STREAM = "text/event-stream; charset=utf-8"


class Endpoints:
    """Answers requests.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def predict(self, request: Request) -> Result:
        """Predict rows; nothing is learned."""
        content_type, options = request.headers.get("content-type", ""), _choices(request)
        return await self._service.bodies.read(request, partial(self._predict, content_type, options))

    def _predict(self, content_type: str, options: dict[str, str], body: bytes) -> Result:
        service = self._service
        served = service.served()
        batch = served.reader.read(body, content_type, options)
        if batch.keys is not None:
            text = "Predictions are not kept, so key cannot be used here: send labels by the ids of the answer."
            raise HttpError(422, "key_not_kept", text)
        return json_result(service.predicted(served, batch))

    async def learn(self, request: Request) -> Result:
        """Learn from a batch, predict it and learn from it, or count labels; the address says which."""
        service, learner = self._service, self._service.require_learner()
        learner.require_room()
        kind = request.scope["path"].rpartition("/")[2]
        content_type = request.headers.get("content-type", "")
        options = options_of(request) if kind == "labels" else _choices(request)
        key = request.headers.get("idempotency-key") or None
        if key is not None and (len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable()):
            raise HttpError(400, "bad_key", f"An Idempotency-Key has 1 to {_LONGEST_KEY} printable characters.")

        def read(body: bytes) -> tuple[Record, Parsed]:
            digest = b"" if key is None else _digest(body, kind, content_type, options)
            record = Record(kind, content_type, body, options, service.learns_first, key, digest)
            return record, learner.parse(record)

        record, parsed = await service.bodies.read(request, read)
        result = await learner.learn(record, parsed)
        if result.status == 200 and isinstance(parsed, Batch):
            service.metrics.learned_rows.inc(len(parsed.X))
        return result

    # --- looking ---

    async def state(self, request: Request) -> Result:
        """What ``accous inspect --json`` prints."""
        options_of(request)
        return json_result(self._service.up_to_date(self._service.require_readings().latest.state))

    async def trust(self, request: Request) -> Result:
        """The three answers and the verdict."""
        options_of(request)
        return json_result(self._service.up_to_date(self._service.require_readings().latest.trust()))

    async def history(self, request: Request) -> Result:
        """The rounds so far, in a bounded number of points."""
        since = options_of(request, "since").get("since", "0")
        if not (since.isascii() and since.isdigit() and len(since) < 19):
            raise HttpError(422, "invalid", "since must be the number of a round, such as 0 or 1200.")
        return json_result(self._service.up_to_date(self._service.require_readings().latest.history(int(since))))

    async def events(self, request: Request) -> Response:
        """Server-sent events, until the reader leaves or the service stops."""
        service = self._service
        if request.method == "HEAD":  # who asks for the head only gets one that ends
            return respond(b"", _EVENT_STREAM)
        if service.n_streams >= service.limits.streams:
            text = f"There are {service.limits.streams:,} streams of events already: try again later."
            raise HttpError(503, "too_many_streams", text, headers={"retry-after": "5"} | CLOSE)
        follower = service.events.follow(read_event_id(request.headers.get("last-event-id", "")))
        # Proxies that collect a response before they pass it on must not do so here.
        headers = _HEADERS | {"x-accel-buffering": "no"}
        return _EventStream(service, follower, headers=headers, media_type=_EVENT_STREAM)

    async def metrics(self, _request: Request) -> Response:
        """What Prometheus reads."""
        service = self._service
        if service.learner is not None:
            service.metrics.queue.set(service.learner.n_pending)
        service.metrics.rounds.set(service.n_rounds)
        service.metrics.streams.set(service.n_streams)
        return respond(service.metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8")

    async def healthz(self, _request: Request) -> Result:
        """Whether the process is alive."""
        return json_result({"status": "alive"})

    async def readyz(self, _request: Request) -> Result:
        """Whether requests are welcome."""
        return json_result({"status": "ready", "rounds": self._service.require_ready()})


class _EventStream(StreamingResponse):
    """A stream that is counted from the moment it is allowed."""

    def __init__(self, service: Service, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._service = service

    async def __call__(self, *arguments: Any) -> None:
        self._service.n_streams += 1
        try:
            await super().__call__(*arguments)
        finally:
            self._service.n_streams -= 1


def _choices(request: Request) -> dict[str, str]:
    """Return what the address says about the response; a body of JSON has a place of its own for it."""
    if not request.scope["query_string"]:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        otherwise = f"with JSON, put {', '.join(CHOICES[:-1])} and {CHOICES[-1]} beside the rows"
        return options_of(request, otherwise=otherwise)
    return options_of(request, *CHOICES)


def _digest(body: bytes, kind: str, content_type: str, options: dict[str, str]) -> bytes:
    digest = hashlib.blake2b(body, digest_size=16)
    digest.update(f"\n{kind}\n{content_type}\n{sorted(options.items())}".encode("utf-8", "replace"))
    return digest.digest()


# --- Responses: every one has headers that browsers obey


_HEADERS = {
    "x-content-type-options": "nosniff",
    # Not "no-referrer": browsers would hide where the login form is from, and it would be refused.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
_HTML = "text/html; charset=utf-8"


def respond(body: bytes, media_type: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response; its own headers replace those that every response has."""
    # Not as a media type, to which Starlette would add a charset.
    all_headers = _HEADERS | {"content-type": media_type} | (headers or {})
    return Response(body, status, all_headers)


def respond_json(result: Result) -> Response:
    """Return a result as a response."""
    return respond(result.body, "application/json", result.status, result.headers)


# --- The pages for people: live, login, report and interface; made from assets that are read once


_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_OWN = ("live.js", "live.css", "icon.svg")
_FROM_REPORT = ("charts.js", "page.css")
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OWN_POLICY = {"content-security-policy": _POLICY.format(script="'self'", style="'self'")}
_FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
_WRONG = '<p class="wrong" role="alert">This token is not known.</p>'
_LOGOUT = ' · <form class="plain" method="post" action="/logout"><button>Leave</button></form>'
_COOKIE_DAYS = 30


class Pages:
    """Answers people who use a browser.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._assets = {name: page_asset(name) for name in _FROM_REPORT} | {name: _asset(name) for name in _OWN}
        contents = "".join(self._assets[name] for name in sorted(self._assets))
        self.place = f"/assets/{hashlib.sha256(contents.encode()).hexdigest()[:12]}"
        self._interface: Result | None = None

    async def asset(self, request: Request) -> Response:
        """Return a script or a style sheet; their address changes with them."""
        name = request.path_params["name"]
        if name not in self._assets:
            raise _not_found()
        return respond(self._assets[name].encode(), _KINDS[name.rpartition(".")[2]], headers=_FOREVER)

    async def icon(self, _request: Request) -> Response:
        """Return the picture that browsers ask for by themselves."""
        return respond(self._assets["icon.svg"].encode(), _KINDS["svg"])

    async def live(self, request: Request) -> Response:
        """Return the live page, or the one that asks for a token."""
        self._service.require_readings()
        gate = self._service.gate
        if gate.tokens.is_open or gate.has_cookie(request):
            return self._page("live.html", logout="" if gate.tokens.is_open else _LOGOUT)
        return self._page("login.html", wrong="")

    async def view(self, _request: Request) -> Result:
        """Return what the live page shows."""
        return json_result(self._service.up_to_date(self._service.require_readings().latest.view))

    async def login(self, request: Request) -> Response:
        """Give a cookie for a token."""
        try:
            form = await self._service.bodies.read(request, lambda body: body.decode("ascii"))
            token = parse_qs(form, max_num_fields=5).get("token", [""])[0].strip()
        except ValueError:
            raise HttpError(400, "malformed_form", "The form cannot be read.") from None
        if not self._service.gate.tokens.allows(token, "read"):
            return self._page("login.html", 401, wrong=_WRONG)
        response = RedirectResponse("/", 303, _HEADERS)
        # Behind a proxy that says so, the browser speaks HTTPS; at worst, the cookie is kept for HTTPS only.
        forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        response.set_cookie(
            COOKIE, cookie_of(token), _COOKIE_DAYS * 86_400,
            secure="https" in (request.url.scheme, forwarded), httponly=True, samesite="strict",
        )  # fmt: skip
        return response

    async def logout(self, _request: Request) -> Response:
        """Take the cookie back."""
        response = RedirectResponse("/", 303, _HEADERS)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def report(self, _request: Request) -> Response:
        """Return the report of the last reading."""
        page = await asyncio.to_thread(self._service.require_readings().latest.report)
        return respond(page.encode(), _HTML, headers={"content-security-policy": _policy_of(page)})

    async def openapi(self, _request: Request) -> Result:
        """Return the description of the interface."""
        if self._interface is None:
            self._interface = json_result(interface_of(self._service))
        return self._interface

    async def arrow_example(self, _request: Request) -> Response:
        """Return a row in Arrow IPC, which JSON cannot hold."""
        return respond(arrow_example(self._service), "application/vnd.apache.arrow.stream")

    async def interface(self, request: Request) -> Response:
        """Return the description as a page."""
        host = request.headers.get("host") or "localhost:8321"
        page = interface_page(interface_of(self._service), self.place, host)
        return respond(page.encode(), _HTML, headers=_OWN_POLICY)

    def _page(self, template: str, status: int = 200, **parts: str) -> Response:
        """Fill a template in one pass; ``parts`` are HTML already."""
        parts |= {"assets": self.place, "name": escape(self._service.name)}
        page = re.sub(r"\[\[(\w+)\]\]", lambda place: parts[place[1]], _asset(template))
        return respond(page.encode(), _HTML, status, _OWN_POLICY)


def _asset(name: str) -> str:
    return files("accous.service").joinpath("assets", name).read_text(encoding="utf-8")


def _policy_of(page: str) -> str:
    """Return a policy that allows exactly the script and the style that are in a page of ours."""
    found = {}
    for tag in ("script", "style"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        hashes = [b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inside]
        found[tag] = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    return _POLICY.format(**found)


# --- The addresses of the service, who may use each, and which endpoint answers


Endpoint = Callable[[Request], Awaitable[Result | Response]]
# Asked by whoever decides whether the process lives: also answered while there are too many connections.
_HEALTH = frozenset(("healthz", "readyz"))


def make_app(service: Service) -> Starlette:
    """Return the service as an application."""
    own, pages, inference = Endpoints(service), Pages(service), Inference(service)
    look = {"scope": "read", "accepts_cookie": True}
    get: dict[str, tuple[str, Endpoint, dict[str, Any]]] = {
        "/v1/state": ("state", own.state, look),
        "/v1/trust": ("trust", own.trust, look),
        "/v1/history": ("history", own.history, look),
        "/v1/events": ("events", own.events, look),
        "/metrics": ("metrics", own.metrics, look),
        "/healthz": ("healthz", own.healthz, {}),
        "/ping": ("healthz", own.healthz, {}),
        "/readyz": ("readyz", own.readyz, {}),
        "/": ("page", pages.live, {}),
        "/page/view": ("view", pages.view, look),
        "/report": ("report", pages.report, look),
        "/docs": ("docs", pages.interface, look),
        ARROW_EXAMPLE: ("docs", pages.arrow_example, look),
        "/openapi.json": ("docs", pages.openapi, look),
        f"{pages.place}/{{name}}": ("assets", pages.asset, {}),
        "/favicon.ico": ("assets", pages.icon, {}),
        "/v2": ("v2", inference.server, {}),
        "/v2/health/live": ("healthz", inference.live, {}),
        "/v2/health/ready": ("readyz", inference.ready, {}),
    }
    post: dict[str, tuple[str, Endpoint, dict[str, Any]]] = {
        "/v1/predict": ("predict", own.predict, {"scope": "read"}),
        "/v1/step": ("step", own.learn, {"scope": "write"}),
        "/v1/adapt": ("adapt", own.learn, {"scope": "write"}),
        "/v1/labels": ("labels", own.learn, {"scope": "write"}),
        "/invocations": ("invocations", Invocations(service).invoke, {"scope": "read"}),
        "/login": ("login", pages.login, {}),
        "/logout": ("logout", pages.logout, {}),
    }
    for place in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        get[place] = "v2 model", inference.model, {"scope": "read"}
        get[f"{place}/ready"] = "v2 ready", inference.model_ready, {}
        post[f"{place}/infer"] = "v2 infer", inference.infer, {"scope": "read"}
    routes = [
        Route(path, _Guarded(service, name, endpoint, **access).answer, methods=[method])
        for method, table in (("POST", post), ("GET", get))
        for path, (name, endpoint, access) in table.items()
    ]
    other = _Guarded(service, "other", _nowhere)
    app = Starlette(routes=routes, exception_handlers={HTTPException: other.answer_exception})
    app.router.redirect_slashes = False
    return app


class _Guarded:
    """An endpoint behind the gate: who may not ask is refused, errors become responses, and all is counted."""

    def __init__(
        self, service: Service, name: str, endpoint: Endpoint, *, scope: TokenScope | None = None,
        accepts_cookie: bool = False,
    ) -> None:  # fmt: skip
        self._service, self._name, self._endpoint = service, name, endpoint
        self._scope, self._accepts_cookie = scope, accepts_cookie
        self._seconds: Any = None
        self._counters: dict[int, Any] = {}

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        began = time.perf_counter()
        try:
            self._require(request)
            result = await self._endpoint(request)
            response = respond_json(result) if isinstance(result, Result) else result
        except HttpError as error:
            response = respond_json(error.result(request.scope["path"]))
        except ClientDisconnect:
            response = Response(status_code=400)  # nobody is there to see it
        except Exception:
            LOGGER.exception("%s %s failed", request.method, request.scope["path"])
            failed = HttpError(500, "failed", "The service made a mistake; its log says which.")
            response = respond_json(failed.result(request.scope["path"]))
        self._count(response.status_code, time.perf_counter() - began)
        return response

    async def answer_exception(self, request: Request, error: Exception) -> Response:
        """Answer a request that has no endpoint."""
        request.state.exception = error
        return await self.answer(request)

    def _require(self, request: Request) -> None:
        service = self._service
        if self._name not in _HEALTH and service.n_connections() > service.limits.connections:
            headers = {"retry-after": "1"} | CLOSE
            raise HttpError(503, "too_many_connections", "There are too many connections: try again.", headers=headers)
        service.gate.require_host(request)
        if request.method == "POST":
            service.gate.require_same_origin(request)
        if self._scope is not None:
            service.gate.require(request, self._scope, accepts_cookie=self._accepts_cookie)

    def _count(self, status: int, seconds: float) -> None:
        if self._seconds is None:
            self._seconds = self._service.metrics.request_seconds.labels(self._name)
        self._seconds.observe(seconds)
        counter = self._counters.get(status)
        if counter is None:
            counter = self._counters[status] = self._service.metrics.requests.labels(self._name, str(status))
        counter.inc()


async def _nowhere(request: Request) -> Result:
    """Say what is wrong with an address that is none, or a method that it does not take."""
    error: HTTPException = request.state.exception
    if error.status_code != 405:
        raise _not_found()
    allowed = next(iter((error.headers or {}).values()), "")
    methods = ", ".join(sorted(each for each in allowed.split(", ") if each != "HEAD"))
    raise HttpError(405, "wrong_method", f"Use {methods} here.", headers={"allow": methods} | CLOSE)


def _not_found() -> HttpError:
    return HttpError(404, "not_found", "There is nothing at this address; /docs lists what there is.", headers=CLOSE)
