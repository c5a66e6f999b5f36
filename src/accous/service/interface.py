"""The interface of the service: addresses, who may use them, their description in OpenAPI, and pages for people."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs

import msgspec
import polars as pl
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from accous.exceptions import ParameterError
from accous.report.page import page_asset
from accous.service.bodies import (
    ARROW,
    CLOSE,
    HEADERS,
    AskBody,
    HttpError,
    LabelsBody,
    RowsBody,
    Value,
    make_id,
    respond,
    respond_json,
)
from accous.service.protocols import InferBody, Invocation
from accous.table.columns import CategoryColumn, DateColumn, NumberColumn

if TYPE_CHECKING:
    from accous.service.app import Service

# --- An address of the service


@dataclass(frozen=True)
class Endpoint:
    """What answers at an address, who may ask, and how it is described.

    Attributes
    ----------
    method, path : str
    answer : callable
        Returns the response to a request.
    summary : str
        An address without one is not described.
    access : {"open", "look", "read", "write"}
        The token that is needed; to look, the page's cookie is enough.
    takes, gives : str
        The forms of the bodies of request and response by name, or a media type.
    parameters : tuple of str
        What the address and the headers may say.
    """

    method: str
    path: str
    answer: Callable[[Request], Awaitable[Response]]
    summary: str = ""
    access: Literal["open", "look", "read", "write"] = "open"
    takes: str = ""
    gives: str = ""
    parameters: tuple[str, ...] = ()


# --- Who may do what: tokens for reading and for writing, compared in constant time, and a cookie for the page


TokenScope = Literal["read", "write"]
COOKIE = "accous_page"
_LEAST_CHARACTERS = 16
_FORM = "lines such as 'read: TOKEN' and 'write: TOKEN'"


@dataclass(frozen=True)
class Tokens:
    """The tokens of a service; without any, everybody who reaches it may do everything.

    Attributes
    ----------
    read, write : tuple of str
        Who may write may also read.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self.read and not self.write

    def allows(self, token: str, scope: TokenScope) -> bool:
        """Whether a token may do this; the time that it takes says nothing about the tokens."""
        known = self.write if scope == "write" else (*self.read, *self.write)
        return any([hmac.compare_digest(_digest(each), _digest(token)) for each in known])  # noqa: C419

    def knows_cookie(self, cookie: str) -> bool:
        """Whether a cookie was given to somebody who may read."""
        given = cookie.encode("utf-8", "replace")
        return any([hmac.compare_digest(cookie_of(each).encode(), given) for each in (*self.read, *self.write)])  # noqa: C419


def cookie_of(token: str) -> str:
    """Return the cookie for a token: it opens the page, and does not give the token away."""
    return hmac.new(token.encode(), b"accous serve: the page", hashlib.sha256).hexdigest()


def _digest(token: str) -> bytes:
    """Return a digest, so that not even the length of a token shows in the time of a comparison."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def read_token_file(path: Path) -> Tokens:
    """Read a file with one token to a line, each after ``read:`` or ``write:``; lines with # are comments."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise ParameterError(f"--token-file {path} cannot be read ({error}).") from None
    found: dict[str, list[str]] = {"read": [], "write": []}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        scope, _, token = (part.strip() for part in line.partition(":"))
        if scope not in found or not token:
            raise ParameterError(f"--token-file {path}, line {number}: use {_FORM}.")
        if len(token) < _LEAST_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
            raise ParameterError(
                f"--token-file {path}, line {number}: a token needs at least {_LEAST_CHARACTERS} letters and digits, "
                "such as openssl rand -hex 32 prints."
            )
        found[scope].append(token)
    if not any(found.values()):
        raise ParameterError(f"--token-file {path} holds no token: use {_FORM}.")
    return Tokens(tuple(found["read"]), tuple(found["write"]))


# --- The gate: which requests reach an endpoint at all


_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+|::1)(?::[0-9]{1,5})?")
_CHALLENGE = {"www-authenticate": 'Bearer realm="accous"'} | CLOSE


class Gate:
    """Checks who asks, and from where.

    Parameters
    ----------
    tokens : Tokens
    hosts : tuple of str
        Further names that requests may use for this machine while there are no tokens.
    """

    def __init__(self, tokens: Tokens, hosts: tuple[str, ...] = ()) -> None:
        self.tokens = tokens
        self._hosts = frozenset((*_LOOPBACK, *(host.lower() for host in hosts)))

    def require_host(self, request: Request) -> None:
        """Refuse a name of this machine that is not its own: a page on the web can make a browser use one."""
        if not self.tokens.is_open:
            return
        found = _HOST.fullmatch(request.headers.get("host", "").lower())  # one: h11 refuses two
        if found is None or found[1] not in self._hosts:
            text = "This service answers to localhost only; to give it a name, use tokens."
            raise HttpError(421, "wrong_host", text, headers=CLOSE)

    def require(self, request: Request, scope: TokenScope, *, accepts_cookie: bool = False) -> None:
        """Refuse a request without the right token."""
        if self.tokens.is_open:
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.tokens.allows(token.strip(), scope):
            return
        if accepts_cookie and self.has_cookie(request):
            return
        if kind and self.tokens.allows(token.strip(), "read"):
            raise HttpError(403, "read_only", "This token may read only: use a token for writing.", headers=CLOSE)
        text = "A token is needed: send the header 'Authorization: Bearer TOKEN'."
        raise HttpError(401, "no_token", text, headers=_CHALLENGE)

    def has_cookie(self, request: Request) -> bool:
        """Whether the page's cookie is there."""
        cookie = request.cookies.get(COOKIE)
        return cookie is not None and self.tokens.knows_cookie(cookie)

    @staticmethod
    def require_same_origin(request: Request) -> None:
        """Refuse what another site's page sends: browsers say where a page is from, programs do not."""
        origin = request.headers.get("origin", "")
        if origin and origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
            raise HttpError(403, "other_origin", "Pages of other sites may not send requests here.", headers=CLOSE)


# --- The forms of responses; those of requests are the types by which bodies are decoded


class PredictedBatch(msgspec.Struct):
    """Predictions, and what was asked for besides them."""

    round: int
    predictions: list[Value]
    ids: list[str] = []
    classes: list[str] = []
    probabilities: list[list[float]] = []
    ratio: list[float] = []
    sets: list[list[Value]] = []
    intervals: list[list[float | None]] = []


class LearnedBatch(msgspec.Struct):
    """The round that was run, and its rows."""

    round: int
    rows: int


class Counted(msgspec.Struct):
    """What became of late labels."""

    round: int
    labels: int
    counted: int
    counted_before: int
    corrected: int
    without_label: int
    unmatched: int
    learned: int
    labelled_rows: int
    unknown_labels: dict[str, int]


class Asked(msgspec.Struct):
    """Rows to label: their ids, their keys if they have some, and the probability of each; of how many."""

    round: int
    rows: int
    ids: list[str]
    keys: list[str | None]
    probabilities: list[float]


class ErrorDetails(msgspec.Struct):
    """A word for programs, and a sentence for people."""

    code: str
    message: str


class Error(msgspec.Struct):
    """What is wrong with a request."""

    error: ErrorDetails


class ProtocolError(msgspec.Struct):
    """What is wrong with a request, in the Open Inference Protocol."""

    error: str


Schema = dict[str, Any]
_TYPES = (
    RowsBody,
    LabelsBody,
    AskBody,
    PredictedBatch,
    LearnedBatch,
    Counted,
    Asked,
    Error,
    ProtocolError,
    InferBody,
    Invocation,
)


def _schemas(service: Service) -> Schema:
    """Return the forms that have a name; rows have the columns of this model."""
    _, found = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    columns: Schema = {}
    for plan in service.reader().table_model.encoder.used:
        if isinstance(plan, NumberColumn):
            columns[plan.name] = {"type": ["number", "null"]}
        elif isinstance(plan, DateColumn):
            # The form is not a regular expression: one date stands for all.
            columns[plan.name] = {"type": ["string", "null"], "enum": [_ordinary(plan), None]}
        elif isinstance(plan, CategoryColumn):
            columns[plan.name] = {"type": ["string", "null"], "examples": plan.levels[:5]}
    found["Row"] = {"type": "object", "properties": columns, "required": list(columns)}
    found["RowsBody"]["properties"]["rows"]["items"] = _named("Row")
    without_key = {name: each for name, each in found["RowsBody"]["properties"].items() if name != "key"}
    found["RowsToPredict"] = found["RowsBody"] | {"properties": without_key}
    return found


def _named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# --- Requests that work on this model as they are


def _ordinary_row(service: Service) -> dict[str, Any]:
    return {plan.name: _ordinary(plan) for plan in service.reader().table_model.encoder.used}


def _ordinary(plan: Any) -> Any:
    if isinstance(plan, NumberColumn):
        return float(f"{plan.median:.6g}")
    if isinstance(plan, DateColumn):
        return datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC).strftime(plan.form or "%Y-%m-%d %H:%M:%S")
    return plan.levels[0] if isinstance(plan, CategoryColumn) and plan.levels else ""


def _requests(service: Service) -> dict[str, Schema]:
    """Return a body for each form of a request, by its media type."""
    row, reader = _ordinary_row(service), service.reader()
    label = min(reader.table_model.model.task_.truths.tolist())
    tensors = [
        {"name": name, "shape": [1], "datatype": "FP64" if isinstance(value, float) else "BYTES", "data": [value]}
        for name, value in row.items()
    ]
    tables = {
        "text/csv": {"schema": {"type": "string"}, "example": pl.DataFrame([row]).write_csv()},
        ARROW: {"schema": {"type": "string", "format": "binary"}},
    }
    bodies = {
        "RowsToPredict": {"rows": [row], "include": ["ids", "probabilities", "ratio"]},
        "RowsBody": {"rows": [row, row]},
        "AskBody": {"n": 100},
        "LabelsBody": {"labels": [{"id": make_id("p0", 0, 0, label, reader.salt), "label": label}]},
        "InferBody": {"inputs": tensors, "outputs": [{"name": "predict"}]},
        "Invocation": {"dataframe_records": [row]},
    }
    return {
        name: {"application/json": {"schema": _named(name), "example": body}} | (tables if "Rows" in name else {})
        for name, body in bodies.items()
    }


# --- The description in OpenAPI


def _parameter(name: str, where: str, text: str, **schema: Any) -> Schema:
    return {"name": name, "in": where, "description": text, "schema": {"type": "string"} | schema}


_PARAMETERS = [
    _parameter(
        "Idempotency-Key", "header", "Your name for the batch: repeat the request with it, and the batch counts once.",
        minLength=1, maxLength=255, pattern="^[!-~]+$",
    ),
    _parameter("include", "query", "Parts of the response, with commas between them. For CSV and Arrow."),
    _parameter("alpha", "query", "Share of rows whose true class may be missing from its set. For CSV and Arrow."),
    _parameter("key", "query", "A column that names the rows; labels may come by it. For CSV and Arrow."),
    _parameter("by", "query", "A column: the metric of its values as segments, the worst first."),
    _parameter("since", "query", "Leave out the rounds up to this one.", type="integer", minimum=0, maximum=10**15),
    _parameter("Last-Event-ID", "header", "The id of the last event that you saw: you get what came after it."),
]  # fmt: skip


def interface_of(service: Service, endpoints: list[Endpoint]) -> Schema:
    """Return the description for this model: its columns and classes are in it."""
    requests = _requests(service)
    paths: Schema = {}
    for each in endpoints:
        if each.summary:
            operation = _operation(each, requests)
            paths.setdefault(each.path.replace("{name}", service.name), {})[each.method.lower()] = operation
    text = "A model that follows its inputs as they drift. Every error has the shape of Error."
    return {
        "openapi": "3.1.0",
        "info": {"title": f"accous: {service.name}", "version": "1", "description": text},
        "paths": paths,
        "components": {
            "schemas": _schemas(service),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}] if service.gate.tokens.is_open else [{"token": []}],
    }


def _operation(endpoint: Endpoint, requests: dict[str, Schema]) -> Schema:
    error = _named("ProtocolError" if endpoint.path.startswith("/v2") else "Error")
    refused = {"description": "Refused.", "content": {"application/json": {"schema": error}}}
    gives = endpoint.gives
    schema = {"type": "string"} if "/" in gives else _named(gives) if gives else {"type": "object"}
    content = {gives if "/" in gives else "application/json": {"schema": schema}}
    responses = {"200": {"description": "Done.", "content": content}, "4XX": refused, "503": refused}
    found: Schema = {"summary": endpoint.summary, "responses": responses}
    if endpoint.takes:
        found["requestBody"] = {"required": True, "content": requests[endpoint.takes]}
        responses["507"] = refused
    if endpoint.access == "open":
        found["security"] = []
    if endpoint.parameters:
        found["parameters"] = [each for each in _PARAMETERS if each["name"] in endpoint.parameters]
    return found


# --- The description as a page: every endpoint with a request that you can paste


def _sections(interface: Schema, host: str) -> str:
    found = []
    for path, methods in interface["paths"].items():
        for method, operation in methods.items():
            command = _command(f"{host}{path}", operation, needs_token={} not in interface["security"])
            head = f'<h2><span class="method">{method.upper()}</span> <code>{escape(path)}</code></h2>'
            text = f"<p>{escape(operation['summary'])}</p><pre>{escape(command)}</pre>"
            found.append(f"<section>{head}{text}</section>")
    return "".join(found)


def _command(address: str, operation: Schema, *, needs_token: bool) -> str:
    command = f"curl {address}"
    if needs_token and operation.get("security") != []:
        command += ' -H "Authorization: Bearer $TOKEN"'
    if "requestBody" in operation:
        found = operation["requestBody"]["content"]["application/json"]["example"]
        body = json.dumps(found, ensure_ascii=False).replace("'", "'\\''")
        command += f" -H 'Content-Type: application/json' \\\n  -d '{body}'"
    return command


# Not "no-referrer": browsers would hide where the login form is from, and it would be refused.
_OF_PAGES = HEADERS | {"referrer-policy": "same-origin"}
_HTML = "text/html; charset=utf-8"


# --- The pages for people: live, login, report and interface; made from assets that are read once


_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_OWN, _FROM_REPORT = ("live.js", "live.css", "icon.svg"), ("charts.js", "page.css")
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OWN_POLICY = _POLICY.format(script="'self'", style="'self'")
_WRONG = '<p class="wrong" role="alert">This token is not known.</p>'
_LOGOUT = ' · <form class="plain" method="post" action="/logout"><button>Leave</button></form>'
_COOKIE_DAYS = 30


class Pages:
    """Answers people who use a browser.

    Parameters
    ----------
    service : Service
    described : list of Endpoint
        All of the service, also those that are added later; those with a summary are in its description.
    """

    def __init__(self, service: Service, described: list[Endpoint]) -> None:
        self._service = service
        self._assets = {name: page_asset(name) for name in _FROM_REPORT} | {name: _asset(name) for name in _OWN}
        self._described = described

    def endpoints(self) -> list[Endpoint]:
        """Return the addresses of the pages."""
        return [
            Endpoint("GET", "/report", self.report, "The report, as a page.", "look", gives="text/html"),
            Endpoint("GET", "/", self.live),
            Endpoint("GET", "/page/view", self.view, access="look"),
            Endpoint("GET", "/docs", self.interface, access="look"),
            Endpoint("GET", "/openapi.json", self.openapi, access="look"),
            Endpoint("GET", "/assets/{name}", self.asset),
            Endpoint("GET", "/favicon.ico", self.icon),
            Endpoint("POST", "/login", self.login),
            Endpoint("POST", "/logout", self.logout),
        ]

    async def asset(self, request: Request) -> Response:
        """Return a script or a style sheet."""
        name = request.path_params["name"]
        if name not in self._assets:
            raise not_found()
        return respond(self._assets[name].encode(), _KINDS[name.rpartition(".")[2]])

    async def icon(self, _request: Request) -> Response:
        """Return the picture that browsers ask for by themselves."""
        return respond(self._assets["icon.svg"].encode(), _KINDS["svg"])

    async def live(self, request: Request) -> Response:
        """Return the live page, or the one that asks for a token."""
        self._service.owned(self._service.readings)
        gate = self._service.gate
        if gate.tokens.is_open or gate.has_cookie(request):
            return self._page("live.html", logout="" if gate.tokens.is_open else _LOGOUT)
        return self._page("login.html", wrong="")

    async def view(self, _request: Request) -> Response:
        """Return what the live page shows."""
        return self._service.up_to_date(self._service.owned(self._service.readings).latest.view)

    async def login(self, request: Request) -> Response:
        """Give a cookie for a token."""
        try:
            form = await self._service.bodies.read(request, lambda body: body.decode("ascii"))
            token = parse_qs(form, max_num_fields=5).get("token", [""])[0].strip()
        except ValueError:
            raise HttpError(400, "malformed_form", "The form cannot be read.") from None
        if not self._service.gate.tokens.allows(token, "read"):
            return self._page("login.html", 401, wrong=_WRONG)
        response = RedirectResponse("/", 303, _OF_PAGES)
        # Behind a proxy that says so, the browser speaks HTTPS; at worst, the cookie is kept for HTTPS only.
        forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        response.set_cookie(
            COOKIE, cookie_of(token), _COOKIE_DAYS * 86_400,
            secure="https" in (request.url.scheme, forwarded), httponly=True, samesite="strict",
        )  # fmt: skip
        return response

    async def logout(self, _request: Request) -> Response:
        """Take the cookie back."""
        response = RedirectResponse("/", 303, _OF_PAGES)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def report(self, _request: Request) -> Response:
        """Return the report of the last reading."""
        reading = self._service.owned(self._service.readings).latest
        page = await asyncio.to_thread(lambda: reading.report)
        return _respond_page(page, _policy_of(page))

    async def openapi(self, _request: Request) -> Response:
        """Return the description of the interface."""
        return respond_json(interface_of(self._service, self._described))

    async def interface(self, request: Request) -> Response:
        """Return the description as a page."""
        found = interface_of(self._service, self._described)
        sections = _sections(found, request.headers.get("host") or "localhost:8321")
        return self._page("docs.html", text=escape(found["info"]["description"]), sections=sections)

    def _page(self, template: str, status: int = 200, **parts: str) -> Response:
        """Fill a template in one pass; ``parts`` are HTML already."""
        parts["name"] = escape(self._service.name)
        page = re.sub(r"\[\[(\w+)\]\]", lambda place: parts[place[1]], _asset(template))
        return _respond_page(page, _OWN_POLICY, status)


def _respond_page(page: str, policy: str, status: int = 200) -> Response:
    return respond(page.encode(), _HTML, status=status, headers=_OF_PAGES | {"content-security-policy": policy})


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


def not_found() -> HttpError:
    """Return the error of an address that there is not."""
    return HttpError(404, "not_found", "There is nothing at this address; /docs lists what there is.", headers=CLOSE)
