"""The frame of all pages: navigation, caller, and answers for addresses that make no sense."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs
from starlette.responses import Response

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.ports import Environment
from virtuallog_console.access.routes import ConsoleRequest
from virtuallog_console.pages.page_query import PageQuery, PageQueryError
from virtuallog_console.pages.renderer import answer
from virtuallog_console.views.masks import Masks
from virtuallog_console.views.viewer import Viewer

LINKS: Final[Mapping[str, str]] = {
    "/": "Chain",
    "/entries": "Entries",
    "/tree": "Tree",
    "/nodes": "Nodes",
    "/holds": "Holds",
    "/live": "Live",
    "/actions": "Actions",
}
"""Main pages, in the order of the navigation. The tree is there if the cluster has a database."""


@attrs.frozen
class PageRequest:
    """A request of a page: who asks, and for what."""

    request: ConsoleRequest
    viewer: Viewer
    query: PageQuery

    def part(self, name: str) -> str:
        """A parameter of the path."""
        return str(self.request.http.path_params[name])


PageEndpoint: TypeAlias = Callable[[PageRequest], Awaitable[Response]]


@attrs.frozen
class Frame:
    """Parts that the pages of one console have in common."""

    log: VirtualLog
    masks: Masks

    @property
    def environment(self) -> Environment:
        """Clock and services of the client."""
        return self.log.view.environment

    @property
    def has_database(self) -> bool:
        """True if the register says that the log is that of a database, as far as this client knows."""
        return self.log.view.cached is not None and self.log.view.cached.database

    def known_version(self) -> int:
        """Version of the register that this client has seen last, such as by an action of its own."""
        return self.log.view.cached.version if self.log.view.cached is not None else 0

    def show(self, template: str, asked: PageRequest, *, status: int = 200, **values: Any) -> Response:
        """A page in the frame."""
        links = {path: name for path, name in LINKS.items() if path != "/tree" or self.has_database}
        return answer(
            template,
            status,
            links=links,
            here=asked.request.http.url.path,
            caller=asked.request.caller,
            cluster=self.log.view.cached.cluster.hex() if self.log.view.cached is not None else "",
            now_ms=self.environment.clock.wall() * 1000,
            is_whole=True,
            **values,
        )

    def endpoint(self, page: PageEndpoint) -> Callable[[ConsoleRequest], Awaitable[Response]]:
        """The page as an endpoint: a value in the address that makes no sense becomes a page that says so."""

        async def serve(request: ConsoleRequest) -> Response:
            viewer = Viewer(role=request.caller.role, masks=self.masks)
            asked = PageRequest(request, viewer, PageQuery(request.http.query_params))
            try:
                return await page(asked)
            except PageQueryError as error:
                return self.sentence(asked, "The address makes no sense", str(error), 400)
            except InvalidSettingError as error:
                return self.sentence(asked, "The address makes no sense", f"{error}.", 400)

        return serve

    def sentence(self, asked: PageRequest, title: str, text: str, status: int) -> Response:
        """A page with one sentence, such as that there is no such entry."""
        return self.show("sentence.html", asked, status=status, title=title, text=text)
