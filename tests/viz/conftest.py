"""A real browser, driven over a pipe, and meshes to look at."""

import base64
import io
import json
import os
import select
import shlex
import shutil
import subprocess
import time

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.data import Data

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-unsafe-swiftshader", "--hide-scrollbars", "--remote-debugging-pipe"),
    # Whoever asks for a name gets no answer: a page that needs the network fails.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
PATIENCE = 60.0


class Browser:
    """Chromium without a window; speaks the DevTools protocol, one message a line, over a pipe."""

    def __init__(self, program, folder):
        from_us, self._out = os.pipe()
        self._in, to_us = os.pipe()
        command = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        shell = f"exec {shlex.join(command)} 3<&{from_us} 4>&{to_us}"
        self._process = subprocess.Popen(
            ["bash", "-c", shell],
            pass_fds=(from_us, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us), os.close(to_us)
        self._buffer, self._count, self._session = b"", 0, None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _message(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise ConnectionError("the browser has ended")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **params):
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._count:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, path, *, size=(1000, 700), fragment="", dark=False, density=1):
        """Load a page and wait until its meshes are drawn, or it says that they cannot be."""
        self.events.clear()
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[theme])
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": density, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{path.as_uri()}{fragment}")
        done = (
            "document.documentElement.dataset.meshes || !document.getElementById('failure')?.hidden"
        )
        end = time.monotonic() + PATIENCE
        while not self.run(f"document.readyState === 'complete' && Boolean({done})"):
            assert time.monotonic() < end, "the page draws nothing"
            time.sleep(0.05)
        self.frame()

    def frame(self):
        """Wait until what was asked for is drawn."""
        wait = "requestAnimationFrame(() => requestAnimationFrame(() => done(0)))"
        self.run(f"new Promise((done) => {wait})")

    def screenshot(self):
        """Screenshot of the window, an array [H, W, 3]."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))

    def mouse(self, kind, x, y, **params):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **params)

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def requests(self):
        """The addresses that the page asked for."""
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def complaints(self):
        """Uncaught errors, refused scripts and console messages of the page."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        found = [event for event in self.events if event.get("method") in kinds]
        # Drawing without a graphics card is slow, and the browser remarks on it.
        return [e for e in found if e["params"].get("entry", {}).get("source") != "rendering"]

    def close(self):
        os.close(self._out)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None or shutil.which("bash") is None:
        pytest.skip("no chromium on PATH: 'apt-get install chromium' brings it")
    browser = Browser(program, tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


def ball(subdivisions=3, noise=0.0):
    """A sphere of radius 1 as a mesh."""
    import trimesh

    sphere = trimesh.creation.icosphere(subdivisions=subdivisions)
    pos = torch.tensor(np.asarray(sphere.vertices), dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    pos = pos * (1 + noise * torch.randn(len(pos), 1, generator=generator))
    return Data(pos=pos, face=torch.tensor(np.asarray(sphere.faces)).t().contiguous())


@pytest.fixture
def make_ball():
    return ball


@pytest.fixture
def trio():
    """A noisy ball, a better one, and the true one."""
    return {"noisy": ball(noise=0.05), "clean": ball(noise=0.01), "ground truth": ball()}
