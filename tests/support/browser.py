"""A headless Chromium over pipes: loads a page, runs scripts in it and takes screenshots.

Where no browser is installed, ``find_browser`` gives None.

Source: the DevTools protocol, ``--remote-debugging-pipe``: JSON messages, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: What a page cannot be loaded without, for a root user in a container, and without looking anywhere.
_ARGUMENTS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
#: Becomes the browser, with the two pipes where the protocol has them.
_AT_3_AND_4: Final = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for place, pipe in enumerate(pipes, 3):
    os.dup2(pipe, place)
    os.close(pipe)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str | None:
    """The path of an installed browser, or None."""
    return next((result for name in NAMES if (result := shutil.which(name))), None)


class Browser:
    """One page of a browser in a process of its own. ``troubles`` are the page's errors so far, and
    ``requested`` what it asked to be loaded."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self.requested: list[str] = []
        self._numbers = itertools.count(1)
        self._loaded = False

    def __enter__(self) -> Browser:
        program = find_browser()
        assert program is not None
        self._profile = tempfile.TemporaryDirectory(prefix="kafkawire-browser-", ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        pipes = (theirs_in, theirs_out)
        arguments = (*_ARGUMENTS, f"--user-data-dir={self._profile.name}", "about:blank")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _AT_3_AND_4, *map(str, pipes), program, *arguments],
                pass_fds=pipes,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        finally:
            for pipe in pipes:
                os.close(pipe)
        self._out, self._in = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb")
        try:
            self._attach()
        except BaseException:
            self.close()
            raise
        return self

    def _attach(self) -> None:
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "CSS"):
            self.ask(f"{domain}.enable")

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and remove what it stored."""
        self._out.close()
        self._process.terminate()
        self._process.wait()
        self._in.close()
        self._profile.cleanup()

    def open(self, page: Path | str, width: int = 1400, height: int = 1000) -> None:
        """Load a file, or an address, and wait until it is there."""
        self.resize(width, height)
        self._loaded = False
        self.ask("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        while not self._loaded:
            self._take()

    def resize(self, width: int, height: int = 1000) -> None:
        """Give the window another size, CSS pixels. The page is laid out for it when it is asked next."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        outcome = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in outcome, outcome
        return outcome["result"].get("value")

    def prefer(self, scheme: str) -> None:
        """Let the person who looks like the page ``light`` or ``dark``."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self) -> bytes:
        """Screenshot of the page, as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot")["data"])

    def has_box(self, node: int) -> bool:
        """True if an element takes room in the page."""
        styles = self.ask("CSS.getComputedStyleForNode", nodeId=node)["computedStyle"]
        return all(style["value"] != "none" for style in styles if style["name"] == "display")

    def ask(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol to the page, and its result."""
        return self._ask(method, session=self._session, **parameters)

    def _ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._out.write(json.dumps(message).encode() + b"\0")
        while (answer := self._take()).get("id") != number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _take(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "the browser ended"
            data += byte
        message: dict[str, Any] = json.loads(data)
        parameters = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.troubles.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded":
                self.troubles.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])
        return message
