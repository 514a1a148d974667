"""The monitor process: a read-only page and /api/stat over HTTP."""

from __future__ import annotations

import html
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec

from relay.context import MonitorContext

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="2"><title>relay: {state}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100%; margin-bottom: 2rem }}
th, td {{ text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; vertical-align: top }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums }}
.stop {{ border-left: 4px solid #c33; padding: .5rem 1rem }}
</style></head><body>
<h1>relay: {state}</h1>{stop}
{sections}
<p><a href="/api/stat">/api/stat</a> has these figures as JSON.</p>
</body></html>
"""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(tag: str, text: str, number: bool) -> str:
    return f"<{tag}{' class=n' if number else ''}>{html.escape(text)}</{tag}>"


def _table(title: str, heads: list[str], rows: list[list[object]]) -> str:
    """Numbers and their heads stand to the right; all text is data and is escaped."""
    numeric = [bool(rows) and _is_number(value) for value in (rows[0] if rows else heads)]
    head = "".join(_cell("th", text, number) for text, number in zip(heads, numeric, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell("td", f"{v:,}" if _is_number(v) else str(v), _is_number(v)) for v in row) + "</tr>"
        for row in rows
    )
    return f"<h2>{html.escape(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _dropped(dropped: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in dropped.items() if count) or "none"


def _filters(filters: list[dict[str, Any]]) -> str:
    return ", ".join(f"{f['schema']}.{f['table']} ({f['kinds']})" for f in filters)


def _source(source: dict[str, Any]) -> list[list[object]]:
    last = datetime.fromtimestamp(source["last_event"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return [
        ["server", f"{source['host']}:{source['port']}"],
        ["state", f"{source['state']}, heard {source['silent_seconds']:.1f} s ago"],
        ["binlog", f"{source['file']}:{source['position']}"],
        ["GTID set", source["gtid_set"]],
        ["last event", last if source["last_event"] else "none yet"],
    ]


def _lake(lake: dict[str, Any]) -> list[list[object]]:
    export, snapshot = lake["export"], lake["snapshot"]
    rows: list[list[object]] = [
        ["path", lake["path"]],
        ["export", f"{export['state']}, {lake['lag_seconds']:.1f} s and {lake['lag_bytes']:,} bytes behind"],
        ["up to", f"{export['file']}:{export['offset']}, seq {export['seq']:,}"],
        ["written", f"{export['rows']:,} rows in {export['files']:,} files"],
        ["snapshot", f"{snapshot['state']} {snapshot['table']} {snapshot['rows']:,} of about {snapshot['total']:,} rows"
         if snapshot["table"] else snapshot["state"]],
    ]  # fmt: skip
    for name, stop in (("export", export["stop"]), ("snapshot", snapshot["stop"])):
        if stop:
            rows.append([f"{name} stopped", f"{stop['code']}: {stop['text']} (hint: {stop['hint']})"])
    return rows


def page(document: dict[str, Any]) -> str:
    """The stat document as HTML."""
    stop, gaps = document["stop"], document["gaps"]
    sections = [
        _table("Source", ["", ""], _source(document["source"])),
        _table(
            "Clients",
            ["id", "name", "connected", "filters", "waiting", "in flight", "confirmed", "dropped"],
            [
                [str(c["id"]), c["name"], "yes" if c["connected"] else "no", _filters(c["filters"]), c["waiting"],
                 c["in_flight"], c["confirmed"], _dropped(c["dropped"])]
                for c in document["clients"]
            ],
        ),
        *([_table("Accepted gaps", ["from", "to", "cause"], [[g["before"], g["after"], g["cause"]] for g in gaps])]
          if gaps else []),
        *([_table("Lake", ["", ""], _lake(document["lake"]))] if document["lake"] else []),
        _table("Rows", ["", "read"], [[kind, n] for kind, n in (document["rows"] | document["traffic"]).items()]),
        _table("Journal", ["", "bytes"], [[key, value] for key, value in document["journal"].items()]),
        _table(
            "Processes",
            ["name", "pid", "state", "restarts", "cpu s", "memory"],
            [[p["name"], str(p["pid"]), p["state"], p["restarts"], p["cpu_seconds"], p["rss_bytes"]]
             for p in document["processes"]],
        ),
    ]  # fmt: skip
    return _PAGE.format(state=html.escape(document["state"]), stop=_banner(stop), sections="\n".join(sections))


def _banner(stop: dict[str, str] | None) -> str:
    if stop is None:
        return ""
    code, text, hint = (html.escape(stop[key]) for key in ("code", "text", "hint"))
    return f"<p class=stop><b>{code}</b>: {text}<br>{hint}</p>"


def _handler(stat: Callable[[], dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5  # seconds a silent or slow peer may hold the only thread

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path == "/":
                self._send("text/html; charset=utf-8", page(stat()).encode())
            elif path == "/api/stat":
                self._send("application/json", msgspec.json.encode(stat()))
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _send(self, content_type: str, body: bytes) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """A request a second from every open page is no event."""

    return Handler


def run(context: MonitorContext) -> int:
    """Serves until told to stop."""
    assert context.listener is not None
    server = HTTPServer(("", 0), _handler(context.stat), bind_and_activate=False)
    server.socket.close()
    server.socket = context.listener
    server.socket.settimeout(1.0)  # handle_request waits no longer than its socket: not at all if that does not block
    context.arena.mark_running(context.slot)
    while not context.stopping:
        server.handle_request()
        context.beat()
    return 0
