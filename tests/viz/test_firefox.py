"""The page in Firefox, in a window of Xvfb: its headless mode has no WebGL."""

import base64
import io
import json
import os
import shutil
import socket
import subprocess
import time

import numpy as np
import pytest
from PIL import Image

from permutogeo.viz import mesh_report

PATIENCE = 90.0
PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "webgl.force-enabled": True,
    # A proxy that no one serves: a page that needs the network fails.
    "network.proxy.type": 1,
    "network.proxy.socks": "127.0.0.1",
    "network.proxy.socks_port": 9,
}
BOXES = """[...document.querySelectorAll('canvas')].map((canvas) => {
  const box = canvas.getBoundingClientRect();
  return [box.left, box.top, box.width, box.height];
})"""


class Firefox:
    """Firefox on its own display; speaks Marionette, messages of "length:json", over a socket."""

    def __init__(self, folder):
        self._processes, self._socket, self._buffer, self._count = [], None, b"", 0
        try:
            self._connect(folder)
        except BaseException:
            self.close()
            raise

    def _connect(self, folder):
        here, there = os.pipe()
        server = ["Xvfb", "-displayfd", str(there), "-screen", "0", "1200x900x24"]
        self._start(server, pass_fds=(there,))
        os.close(there)
        with os.fdopen(here) as file:
            display = f":{file.readline().strip()}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        lines = [
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in {**PREFERENCES, "marionette.port": port}.items()
        ]
        (folder / "user.js").write_text("".join(lines))
        environment = {"DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1", "HOME": str(folder)}
        command = ["firefox", "--marionette", "--no-remote", "--profile", str(folder)]
        self._start(command, env={**os.environ, **environment})
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end, "Firefox does not listen"
                time.sleep(0.2)
        self._message()
        self.call("WebDriver:NewSession", capabilities={})

    def _start(self, command, **options):
        options |= {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._processes.append(subprocess.Popen(command, **options))

    def _message(self):
        while b":" not in self._buffer:
            self._read()
        length, self._buffer = self._buffer.split(b":", 1)
        while len(self._buffer) < int(length):
            self._read()
        line, self._buffer = self._buffer[: int(length)], self._buffer[int(length) :]
        return json.loads(line)

    def _read(self):
        part = self._socket.recv(1 << 20)
        if not part:
            raise ConnectionError("Firefox has ended")
        self._buffer += part

    def call(self, command, **params):
        self._count += 1
        line = json.dumps([0, self._count, command, params]).encode()
        self._socket.sendall(f"{len(line)}:".encode() + line)
        _, number, error, result = self._message()
        assert number == self._count and error is None, error
        return result

    def run(self, script):
        """The value of an expression in the page."""
        return self.call("WebDriver:ExecuteScript", script=f"return {script}", args=[])["value"]

    def open(self, path, size=(1000, 760)):
        """Load a page and wait until its meshes are drawn."""
        self.call("WebDriver:SetWindowRect", width=size[0], height=size[1])
        self.call("WebDriver:Navigate", url=path.as_uri())
        end = time.monotonic() + PATIENCE
        while not self.run("document.documentElement.dataset.meshes"):
            assert self.run("document.getElementById('failure').hidden"), "no WebGL"
            assert time.monotonic() < end, "the page draws nothing"
            time.sleep(0.05)

    def screenshot(self):
        """Screenshot of the page as it is seen, an array [H, W, 3], once drawn."""
        wait = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        self.call("WebDriver:ExecuteAsyncScript", script=wait, args=[])
        data = self.call("WebDriver:TakeScreenshot", full=False)["value"]
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).astype(int)

    def drag(self, start, step):
        """Press the mouse at a point of the window, move it and release it."""
        (x, y), (dx, dy) = np.rint(start).astype(int).tolist(), step
        actions = [
            {"type": "pointerMove", "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "x": x + dx, "y": y + dy, "duration": 100},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": actions})

    def key(self, key):
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": actions})

    def _act(self, source):
        self.call("WebDriver:PerformActions", actions=[source])
        self.call("WebDriver:ReleaseActions")

    def close(self):
        if self._socket is not None:
            self._socket.close()
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    missing = [name for name in ("firefox", "Xvfb") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on PATH: 'apt-get install firefox-esr xvfb'")
    firefox = Firefox(tmp_path_factory.mktemp("firefox"))
    yield firefox
    firefox.close()


@pytest.fixture
def page(trio, tmp_path):
    return mesh_report(tmp_path / "report.html", trio, title="Three balls")


def center(firefox, selector):
    box = f"document.querySelector('{selector}').getBoundingClientRect()"
    return firefox.run(
        f"[{box}.left + {box}.width / 2, {box}.top + {box}.height / 2, {box}.width, {box}.height]"
    )


def canvases(firefox):
    window = firefox.screenshot()
    boxes = np.rint(firefox.run(BOXES)).astype(int)
    return [window[y + 8 : y + h - 8, x + 8 : x + w - 8] for x, y, w, h in boxes]


def changes(before, after):
    return [float(np.abs(a - b).mean()) for a, b in zip(before, after, strict=True)]


@pytest.mark.slow
def test_firefox_turns_blends_and_compares(firefox, page):
    """Drags and keys do what they do in Chromium."""
    firefox.open(page)
    assert firefox.run("document.documentElement.dataset.meshes") == "3"
    first = canvases(firefox)
    background = first[0][3, first[0].shape[1] // 2]
    seen = [(np.abs(picture - background).max(axis=2) > 12).mean() for picture in first]
    assert all(0.3 < share < 0.9 for share in seen)

    x, y, _, _ = center(firefox, "canvas")
    firefox.drag((x, y), (80, 40))
    assert min(changes(first, canvases(firefox))) > 0.5, "a drag turns all views"
    firefox.key("r")
    assert max(changes(first, canvases(firefox))) == 0

    x, y, width, _ = center(firefox, "#strength")
    firefox.drag((x + width / 2 - 8, y), (-round(width / 2), 0))
    assert 20 < float(firefox.run("document.getElementById('strength').value")) < 80
    blended = changes(first, canvases(firefox))
    assert blended[1] > 0.5 and blended[0] == blended[2] == 0, "strength is of the result alone"

    x, y, _, _ = center(firefox, "#compare")
    firefox.drag((x, y), (0, 0))
    x, y, _, _ = center(firefox, ".divider")
    before = firefox.screenshot()
    firefox.drag((x, y), (200, 0))
    now = firefox.run("document.querySelector('.divider').getAttribute('aria-valuenow')")
    assert float(now) > 60, "the divider follows the mouse"
    assert np.abs(firefox.screenshot() - before).mean() > 0.3


@pytest.mark.slow
def test_firefox_narrow(firefox, page):
    """At the least width that Firefox has, nothing lies beyond the right border."""
    firefox.open(page, size=(450, 800))
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert firefox.run(wide) == 0
    assert all(width > 200 for _, _, width, _ in firefox.run(BOXES))
