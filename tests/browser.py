"""A real browser without a window, for tests of pages: Debian's Chromium, spoken to through its debugging pipe.

Each command is a JSON object that ends with a zero byte, and so is each answer and each event. The browser is a process of the
test's own with a profile of its own; it ends with the block, and never asks the network for anything by itself.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any, Final

import attrs

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE_SECONDS: Final = 120
"""For one answer: a browser starts in a second, on a busy machine in many."""
COMMANDS_FROM, ANSWERS_TO = 3, 4
"""The file descriptors that the browser looks for."""


def find_browser() -> str | None:
    """The program, if there is one on this machine."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@attrs.define(eq=False)
class Browser:
    """Use `open_browser`. One page; `events` has all that the browser has told since it was opened."""

    _commands: int
    _answers: int
    events: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _session: str = attrs.field(default="", init=False)
    _number: int = attrs.field(default=0, init=False)
    _buffer: bytearray = attrs.field(factory=bytearray, init=False)

    def attach(self) -> None:
        """Open an empty page, and have its console and its requests told."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Do it, and return the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def look(self, *, width: int, height: int, dark: bool = False, still: bool = False) -> None:
        """From now on, with a window of this size, in light or in dark, with motion or without."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, motion])

    def load(self, path: Path) -> None:
        """Return once the page has been loaded."""
        self.open(path.as_uri())

    def open(self, url: str) -> None:
        """The same for a page with this address."""
        self._loads(lambda: self.call("Page.navigate", url=url))

    def follow(self, key: str) -> None:
        """Press a key that leads to another page; return once that has been loaded."""
        self._loads(lambda: self.press(key))

    def press(self, key: str, *, back: bool = False) -> None:
        """Press a key: `Tab`, `Enter`, ` `; with `back` and Shift."""
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        named = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        shift = 8 if back else 0
        text = {"Enter": "\r", " ": " "}.get(key, "")
        self.call("Input.dispatchKeyEvent", type="keyDown", modifiers=shift, text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", modifiers=shift, **named)

    def write(self, text: str) -> None:
        """Type a text into the field that has the focus."""
        self.call("Input.insertText", text=text)

    def until(self, expression: str) -> None:
        """Wait until a JavaScript expression on the page is true."""
        script = f"""new Promise((done, fail) => {{
            const look = () => ({expression}) ? done() : setTimeout(look, 50);
            setTimeout(() => fail(new Error("never: " + {json.dumps(expression)})), {PATIENCE_SECONDS * 500});
            look(); }})"""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True)
        assert "exceptionDetails" not in found, found

    def _loads(self, cause: Callable[[], object]) -> None:
        first = len(self.events)
        cause()
        while not any(event["method"] == "Page.loadEventFired" for event in self.events[first:]):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path, *, is_whole: bool = True) -> None:
        """The whole page, however long, as a PNG; or the part in the window."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings that the page has put on its console, and those of the browser about the page."""
        found = []
        for event in self.events:
            told: Mapping[str, Any] = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in {"error", "warning", "assert"}:
                found.append(str(told["args"]))
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] in {"error", "warning"}:
                found.append(told["entry"]["text"])
        return found

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._answers], [], [], PATIENCE_SECONDS)
            assert ready, "the browser does not answer"
            received = os.read(self._answers, 1 << 16)
            assert received, "the browser has ended"
            self._buffer += received
        text, _, rest = bytes(self._buffer).partition(b"\0")
        self._buffer = bytearray(rest)
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def open_browser(program: str) -> Iterator[Browser]:
    """Start it with an empty profile; end it with the block."""
    commands_read, commands_write = os.pipe()
    answers_read, answers_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="virtuallog-browser-", ignore_cleanup_errors=True) as profile:
        # The shell puts the pipe where the browser looks for it. The sandbox is no use to root, and refuses to start.
        wiring = f"exec {COMMANDS_FROM}<&{commands_read} {ANSWERS_TO}>&{answers_write}"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                 "--no-first-run", "--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={profile}"]  # fmt: skip
        process = subprocess.Popen(
            ["bash", "-c", f'{wiring}; exec "$@"', "bash", program, *flags],
            pass_fds=(commands_read, answers_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(commands_read)
        os.close(answers_write)
        try:
            browser = Browser(commands_write, answers_read)
            browser.attach()
            yield browser
        finally:
            os.close(commands_write)  # the browser ends when its command pipe is closed
            os.close(answers_read)
            os.killpg(process.pid, signal.SIGKILL)  # its helpers, too: they would go on writing to the profile
            process.wait()
