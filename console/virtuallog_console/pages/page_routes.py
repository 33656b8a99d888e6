"""The routes of the pages, and what runs behind them."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.metastore import MetaStoreProvider
from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_console.access.routes import REQUEST_SECONDS, ConsoleRequest, ConsoleRoute, Parameter, RouteGroup
from virtuallog_console.door.entry_json import Hides, hides_nothing
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_console.pages.chain_page import ChainPage
from virtuallog_console.pages.entries_page import EntriesPages
from virtuallog_console.pages.frame import Frame, PageEndpoint
from virtuallog_console.pages.live_page import LivePage
from virtuallog_console.pages.nodes_page import HoldsPage, NodesPage
from virtuallog_console.pages.past_page import PAGE_SECONDS, PastPage
from virtuallog_console.pages.renderer import STATIC_TYPES, static_files
from virtuallog_console.pages.tail_page import END_SECONDS, STREAM_SECONDS, TailPage
from virtuallog_console.pages.tree_pages import EXPORT_REQUEST_SECONDS, TreePages
from virtuallog_console.past.past_reader import PastReader
from virtuallog_console.views.database_commands import is_database_entry
from virtuallog_console.views.live import LiveFigures
from virtuallog_console.views.masks import NO_MASKS, Masks

STATIC_SECONDS: Final = 86_400
"""Seconds for which a browser keeps style and scripts. Their addresses change with their content."""


class Pages:
    """The pages of one console. `run` has to run."""

    def __init__(
        self, log: VirtualLog, metastore: MetaStoreProvider, masks: Masks = NO_MASKS, past: PastReader | None = None
    ) -> None:
        """Show this log.

        Args:
            log: an open client that knows the interface `DATABASE`.
            metastore: provider of the cluster's MetaStore.
            masks: hide values.
            past: answers questions about the past of the database. None to answer none.
        """
        self._log = log
        self._metastore = metastore
        self._figures = LiveFigures(log)
        self._masks = masks
        self._past = past

    @property
    def hides(self) -> Hides:
        """Payloads that the door does not give out: with masks, the entries of a database, which contain every value."""
        return is_database_entry if self._masks.patterns else hides_nothing

    async def run(self) -> None:
        """Take live figures until cancelled."""
        await self._figures.run()

    def routes(self, hub: TailHub) -> RouteGroup:
        """The routes. `hub` has to run."""
        frame = Frame(self._log, self._masks)
        entries, tree = EntriesPages(frame), TreePages(frame)
        tail = TailPage(frame, hub, frame.environment.clock)

        def page(
            path: str,
            endpoint: PageEndpoint,
            summary: str,
            seconds: float = REQUEST_SECONDS,
            *,
            is_stream: bool = False,
        ) -> ConsoleRoute:
            return ConsoleRoute(
                method="GET",
                path=path,
                endpoint=frame.endpoint(endpoint),
                role=Role.CLIENT,
                summary=summary,
                seconds=seconds,
                is_stream=is_stream,
            )

        return RouteGroup(
            "pages",
            (
                page("/", ChainPage(frame, self._metastore).show, "Show the chain, and why it is as it is"),
                page("/entries", entries.show, "Show entries by position, by time or by a text in them"),
                page("/entries/live", tail.show, "Show entries as they are appended"),
                page(
                    "/entries/tail",
                    tail.stream,
                    "Send rows of entries as they are appended",
                    STREAM_SECONDS + END_SECONDS,
                    is_stream=True,
                ),
                page("/entries/{position}", entries.one, "Show one entry"),
                page("/tree", tree.znode, "Show one znode and its children"),
                page("/tree/sessions", tree.sessions, "Show sessions of the database's clients"),
                page("/tree/export", tree.export, "Export a subtree", EXPORT_REQUEST_SECONDS, is_stream=True),
                page(
                    "/tree/past",
                    PastPage(frame, self._past).show,
                    "Show a znode's changes, and its state at an earlier time",
                    PAGE_SECONDS,
                ),
                page("/nodes", NodesPage(frame).show, "Show all nodes"),
                page("/holds", HoldsPage(frame).show, "Show what keeps the log, and the effect of a trim"),
                page("/live", LivePage(frame, self._figures).show, "Show live figures"),
                ConsoleRoute(
                    method="GET",
                    path="/static/{name}",
                    endpoint=static,
                    role=Role.CLIENT,
                    summary="Style and scripts of the pages",
                    parameters=(Parameter(name="name", description="Name of the file.", place="path"),),
                ),
            ),
        )


async def static(request: ConsoleRequest) -> Response:
    """A file that pages load."""
    name = request.http.path_params["name"]
    content = static_files().get(name)
    if content is None:
        raise ProblemError(
            Problem(
                status=404,
                kind="not-found",
                title="There is no such file",
                detail="the pages load no such file",
                remedy="begin at /",
            )
        )
    suffix = name[name.rfind(".") :]
    return Response(
        content, 200, {"Cache-Control": f"private, max-age={STATIC_SECONDS}"}, f"{STATIC_TYPES[suffix]}; charset=utf-8"
    )
