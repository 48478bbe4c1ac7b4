"""Operator's port of a bot: `/livez`, `/readyz` and `/metrics`, in threads that a blocked loop cannot stop."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any, Final, cast

from freight_exchange.bot.metrics import INSTALL_HINT
from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from freight_exchange.bot.status import BotStatus

_logger = logging.getLogger("freight_exchange.bot")

_REQUEST_TIMEOUT: Final = 5.0


class OperatorPort(ThreadingTCPServer):
    """Operator's port, open until `close`. It calls `status` and `expose` in the thread of a request."""

    daemon_threads = True
    # A port that another process listens on is refused, and one that was closed just now is not.
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        status: Callable[[], BotStatus],
        expose: Callable[[str], tuple[str, bytes]] | None,
    ) -> None:
        self.status, self.expose = status, expose
        try:
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            raise ConfigurationError(f"cannot listen on the operator's port {port} of {host!r}: {error}") from error
        self.address = (host, int(self.server_address[1]))
        threading.Thread(target=self.serve_forever, name="operator's port", daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _logger.debug("the operator's port: the client %s failed", client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_TIMEOUT
    server_version = "freight-exchange"
    sys_version = ""

    def do_GET(self) -> None:
        try:
            code, kind, body = self._answer()
        except Exception:
            # A probe must not end the bot.
            _logger.exception("the status of the bot cannot be read; the probe gets a 500")
            code, kind, body = 500, "text/plain; charset=utf-8", b"the status of the bot cannot be read\n"
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def _answer(self) -> tuple[int, str, bytes]:
        server = cast(OperatorPort, self.server)
        path, text = self.path.partition("?")[0], "text/plain; charset=utf-8"
        if path not in ("/livez", "/readyz", "/metrics"):
            return 404, text, b"there are /livez, /readyz and /metrics\n"
        if path == "/metrics":
            if server.expose is None:
                return 501, text, f"{INSTALL_HINT}\n".encode()
            return 200, *server.expose(self.headers.get("Accept", ""))
        now = server.status()
        is_good = now.live and (path == "/livez" or now.state == "running")
        scan = f"watermark {now.age.total_seconds():.1f} s old" if now.scans else "another replica scans"
        return 200 if is_good else 503, text, f"{now.state}, {scan}\n".encode()

    def log_message(self, format: str, *args: Any) -> None:
        _logger.debug("the operator's port: %s", format % args)
