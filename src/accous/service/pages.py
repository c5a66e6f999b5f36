"""The pages for people: live, login, report and interface; made from assets that are read once."""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from html import escape
from importlib.resources import files
from urllib.parse import parse_qs

from accous.report.page.page import page_asset
from accous.service.answers import HTML, Answer
from accous.service.calls import Call
from accous.service.examples import Examples
from accous.service.interface import interface_of
from accous.service.interface_page import interface_page
from accous.service.refusals import Refusal
from accous.service.service import Service
from accous.service.tokens import COOKIE, cookie_of

__all__ = ["Pages"]

_KINDS = {"js": b"text/javascript; charset=utf-8", "css": b"text/css; charset=utf-8", "svg": b"image/svg+xml"}
_OWN = ("live.js", "live.css", "icon.svg")
_FROM_REPORT = ("charts.js", "page.css")
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OWN_POLICY = (b"content-security-policy", _POLICY.format(script="'self'", style="'self'").encode())
_FOREVER = ((b"cache-control", b"public, max-age=31536000, immutable"),)
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
        contents = {name: page_asset(name) for name in _FROM_REPORT} | {name: _asset(name) for name in _OWN}
        digest = hashlib.sha256("".join(contents[name] for name in sorted(contents)).encode()).hexdigest()[:12]
        self._place = f"/assets/{digest}"
        self.assets = {
            f"{self._place}/{name}": Answer(text.encode(), _KINDS[name.rpartition(".")[2]], headers=_FOREVER)
            for name, text in contents.items()
        }
        has_tokens = not service.gate.tokens.is_open
        self._live = _page("live.html", self._place, name=service.name, logout=_LOGOUT if has_tokens else "")
        self._interface: Answer | None = None

    async def asset(self, call: Call) -> Answer:
        """Return a script or a style sheet, by its exact address."""
        return self.assets[call.path]

    async def icon(self, _call: Call) -> Answer:
        """Return the picture that browsers ask for by themselves."""
        return Answer(_asset("icon.svg").encode(), _KINDS["svg"])

    async def live(self, call: Call) -> Answer:
        """Return the live page, or the one that asks for a token."""
        self._service.require_readings()
        gate = self._service.gate
        if gate.tokens.is_open or gate.has_cookie(call):
            return self._live
        return self._login()

    async def view(self, _call: Call) -> Answer:
        """Return what the live page shows."""
        return Answer(self._service.require_readings().latest.view)

    async def login(self, call: Call) -> Answer:
        """Give a cookie for a token."""
        body = await call.body()
        try:
            token = parse_qs(body.decode("ascii"), max_num_fields=5).get("token", [""])[0].strip()
        except ValueError:
            raise Refusal(400, "malformed_form", "The form cannot be read.") from None
        if not self._service.gate.tokens.allows(token, "read"):
            return self._login(_WRONG, 401)
        secure = "; Secure" if call.scope.get("scheme") == "https" or _is_forwarded_https(call) else ""
        age = f"Max-Age={_COOKIE_DAYS * 86_400}"
        cookie = f"{COOKIE}={cookie_of(token)}; Path=/; {age}; HttpOnly; SameSite=Strict{secure}"
        return Answer(b"", HTML, 303, ((b"location", b"/"), (b"set-cookie", cookie.encode())))

    async def logout(self, _call: Call) -> Answer:
        """Take the cookie back."""
        cookie = f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        return Answer(b"", HTML, 303, ((b"location", b"/"), (b"set-cookie", cookie.encode())))

    async def report(self, _call: Call) -> Answer:
        """Return the report of the last reading."""
        page = await asyncio.to_thread(self._service.require_readings().latest.report)
        return Answer(page.encode(), HTML, headers=((b"content-security-policy", _policy_of(page)),))

    async def openapi(self, _call: Call) -> Answer:
        """Return the description of the interface."""
        return Answer(self._described().body)

    async def arrow_example(self, _call: Call) -> Answer:
        """Return a row in Arrow IPC, which JSON cannot hold."""
        return Answer(Examples(self._service).arrow, b"application/vnd.apache.arrow.stream")

    async def interface(self, call: Call) -> Answer:
        """Return the same as a page."""
        page = interface_page(interface_of(self._service), self._place, call.header(b"host") or "localhost:8321")
        return Answer(page.encode(), HTML, headers=(_OWN_POLICY,))

    def _described(self) -> Answer:
        if self._interface is None:
            import msgspec

            self._interface = Answer(msgspec.json.encode(interface_of(self._service)))
        return self._interface

    def _login(self, wrong: str = "", status: int = 200) -> Answer:
        page = _page("login.html", self._place, wrong=wrong)
        return Answer(page.body, HTML, status, page.headers)


def _asset(name: str) -> str:
    return files("accous.service").joinpath("assets", name).read_text(encoding="utf-8")


def _page(template: str, assets: str, *, name: str = "", **parts: str) -> Answer:
    """Fill a template in one pass; ``parts`` are HTML already."""
    parts |= {"assets": assets, "name": escape(name)}
    page = re.sub(r"\[\[(\w+)\]\]", lambda place: parts[place[1]], _asset(template))
    return Answer(page.encode(), HTML, headers=(_OWN_POLICY,))


def _policy_of(page: str) -> bytes:
    """Return a policy that allows exactly the script and the style that are in a page of ours."""
    found = {}
    for tag in ("script", "style"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        hashes = [b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inside]
        found[tag] = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    return _POLICY.format(**found).encode()


def _is_forwarded_https(call: Call) -> bool:
    """Whether a proxy says that the browser speaks HTTPS with it; at worst, the cookie is kept for HTTPS only."""
    return call.header(b"x-forwarded-proto").partition(",")[0].strip().lower() == "https"
