"""The addresses of the service, who may use each, and which endpoint answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from accous.service.answers import Answer
from accous.service.calls import CLOSE, Call
from accous.service.endpoints import Endpoints
from accous.service.examples import ARROW_EXAMPLE
from accous.service.inference import Inference
from accous.service.invocations import Invocations
from accous.service.pages import Pages
from accous.service.refusals import Refusal
from accous.service.service import Service
from accous.service.tokens import TokenScope

__all__ = ["Reply", "Route", "Routes"]

Endpoint = Callable[[Call], Awaitable[Answer]]
Reply = Callable[[Answer], None]
AtOnce = Callable[[Call, bytes, Reply], Answer | None]
_MODELS = "/v2/models/"


@dataclass(frozen=True)
class Route:
    """An address and a method.

    Attributes
    ----------
    name : str
        For metrics.
    endpoint : callable
    scope : {"read", "write"}, optional
        What a token must allow; None: nobody needs one.
    accepts_cookie : bool
        Whether the page's cookie will do.
    is_stream : bool
        Whether the answer goes on.
    at_once : callable, optional
        Answers a small request whose body is there, without a task of its own: it returns the answer, or None if it
        calls its last argument later.
    """

    name: str
    endpoint: Endpoint
    scope: TokenScope | None = None
    accepts_cookie: bool = False
    is_stream: bool = False
    at_once: AtOnce | None = None


class Routes:
    """All addresses.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        own = Endpoints(service)
        self._fixed: dict[str, dict[str, Route]] = {
            "/v1/predict": {"POST": Route("predict", own.predict, "read", at_once=own.predict_at_once)},
            "/v1/adapt": {"POST": Route("adapt", own.adapt, "write", at_once=own.adapt_at_once)},
            "/v1/step": {"POST": Route("step", own.step, "write", at_once=own.step_at_once)},
            "/v1/labels": {"POST": Route("labels", own.labels, "write")},
            "/v1/state": {"GET": _look("state", own.state)},
            "/v1/trust": {"GET": _look("trust", own.trust)},
            "/v1/history": {"GET": _look("history", own.history)},
            "/v1/events": {"GET": _look("events", own.events_head, is_stream=True)},
            "/metrics": {"GET": _look("metrics", own.metrics)},
            "/healthz": {"GET": Route("healthz", own.healthz)},
            "/readyz": {"GET": Route("readyz", own.readyz)},
            **_for_people(Pages(service)),
            **_of_others(Inference(service), Invocations(service), own),
        }
        inference = Inference(service)
        self._of_models = {
            (): {"GET": Route("v2 model", inference.model, "read")},
            ("ready",): {"GET": Route("v2 ready", inference.model_ready)},
            ("infer",): {"POST": Route("v2 infer", inference.infer, "read")},
        }

    def at_once(self) -> dict[bytes, Route]:
        """Return the routes whose small POST requests need no task, by their address."""
        found = ((path, methods.get("POST")) for path, methods in self._fixed.items())
        return {path.encode(): route for path, route in found if route is not None and route.at_once is not None}

    def find(self, call: Call) -> Route:
        """Return the route of a request; refuse an address or a method that there is not."""
        methods = self._fixed.get(call.path) or self._find_model(call)
        if methods is None:
            raise Refusal(
                404, "not_found", "There is nothing at this address; /docs lists what there is.", headers=CLOSE
            )
        method = "GET" if call.method == "HEAD" else call.method
        route = methods.get(method)
        if route is None:
            allowed = ", ".join(methods)
            headers = ((b"allow", allowed.encode()), *CLOSE)
            raise Refusal(405, "wrong_method", f"Use {allowed} here.", headers=headers)
        return route

    def _find_model(self, call: Call) -> dict[str, Route] | None:
        """Return the routes of an address such as /v2/models/NAME/versions/1/infer."""
        if not call.path.startswith(_MODELS):
            return None
        name, *rest = call.path.removeprefix(_MODELS).split("/")
        call.parts["name"] = name
        if rest[:1] == ["versions"] and len(rest) > 1:
            call.parts["version"] = rest[1]
            rest = rest[2:]
        return self._of_models.get(tuple(rest))


def _look(name: str, endpoint: Endpoint, *, is_stream: bool = False) -> Route:
    """Return a route that a token for reading opens, and the page's cookie too."""
    return Route(name, endpoint, "read", accepts_cookie=True, is_stream=is_stream)


def _for_people(pages: Pages) -> dict[str, dict[str, Route]]:
    return {
        "/": {"GET": Route("page", pages.live)},
        "/page/view": {"GET": _look("view", pages.view)},
        "/login": {"POST": Route("login", pages.login)},
        "/logout": {"POST": Route("logout", pages.logout)},
        "/report": {"GET": _look("report", pages.report)},
        "/docs": {"GET": _look("docs", pages.interface)},
        ARROW_EXAMPLE: {"GET": _look("docs", pages.arrow_example)},
        "/openapi.json": {"GET": _look("docs", pages.openapi)},
        **{path: {"GET": Route("assets", pages.asset)} for path in pages.assets},
        "/favicon.ico": {"GET": Route("assets", pages.icon)},
    }


def _of_others(inference: Inference, invocations: Invocations, own: Endpoints) -> dict[str, dict[str, Route]]:
    return {
        "/v2": {"GET": Route("v2", inference.server)},
        "/v2/health/live": {"GET": Route("v2 live", inference.live)},
        "/v2/health/ready": {"GET": Route("v2 ready", inference.ready)},
        "/invocations": {"POST": Route("invocations", invocations.invoke, "read")},
        "/ping": {"GET": Route("healthz", own.healthz)},
    }
