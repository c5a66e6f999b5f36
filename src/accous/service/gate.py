"""The gate: which requests reach an endpoint at all."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from accous.service.calls import CLOSE, Call
from accous.service.refusals import Refusal
from accous.service.tokens import COOKIE, Tokens, TokenScope

__all__ = ["Gate"]

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="accous"'), *CLOSE)


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

    def require_host(self, call: Call) -> None:
        """Refuse a name of this machine that is not its own: a page on the web can make a browser use one."""
        if not self.tokens.is_open:
            return
        host = call.header(b"host").lower()
        name = host if host.startswith("[") and host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._hosts:
            raise Refusal(
                421,
                "wrong_host",
                "This service answers to localhost only; to give it a name, use tokens.",
                headers=CLOSE,
            )

    def require(self, call: Call, scope: TokenScope, *, accepts_cookie: bool = False) -> None:
        """Refuse a request without the right token."""
        if self.tokens.is_open:
            return
        kind, _, token = call.header(b"authorization").partition(" ")
        if kind.lower() == "bearer" and self.tokens.allows(token.strip(), scope):
            return
        if accepts_cookie and self.has_cookie(call):
            return
        if kind and self.tokens.allows(token.strip(), "read"):
            raise Refusal(403, "read_only", "This token may read only: use a token for writing.", headers=CLOSE)
        raise Refusal(
            401, "no_token", "A token is needed: send the header 'Authorization: Bearer TOKEN'.", headers=_CHALLENGE
        )

    def has_cookie(self, call: Call) -> bool:
        """Whether the page's cookie is there."""
        try:
            cookie = SimpleCookie(call.header(b"cookie")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self.tokens.knows_cookie(cookie.value)

    @staticmethod
    def require_same_origin(call: Call) -> None:
        """Refuse what another site's page sends: browsers say where a page is from, programs do not."""
        origin = call.header(b"origin")
        if origin and origin.partition("://")[2].lower() != call.header(b"host").lower():
            raise Refusal(403, "other_origin", "Pages of other sites may not send requests here.", headers=CLOSE)
