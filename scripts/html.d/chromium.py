"""A Chromium without a window, driven through a pipe by its DevTools protocol."""
import base64
import json
import os
import select
import subprocess
import time

# Far more than anything takes, on a machine that is busy with something else.
LIMIT = 60


class Failure(Exception):
    """The browser did not do what was asked."""


class Browser:
    def __init__(self, program, profile):
        # What it reads is 3 and what it writes is 4.
        read_by_it, self.to = os.pipe()
        self.from_it, written_by_it = os.pipe()
        command = [program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"]
        command += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
        command += ["--disable-sync", "--disable-extensions", "--hide-scrollbars", f"--user-data-dir={profile}"]
        command += ["about:blank"]
        # A shell puts the two ends where they belong: Python can only hand them on as they are.
        shell = f'exec 3<&{read_by_it} 4>&{written_by_it}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(read_by_it, written_by_it),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_by_it)
        os.close(written_by_it)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        self.version = self.call("Browser.getVersion")["product"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", session=None)
            self.process.wait(timeout=10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.from_it)

    def call(self, method, session=True, **params):
        """Sends a command and waits for its answer; events that come meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session and self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        until = time.monotonic() + LIMIT
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def message(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_it], [], [], max(0, until - time.monotonic()))
            data = os.read(self.from_it, 1 << 16) if ready else b""
            if not data:
                raise Failure("Chromium has ended" if ready else f"no answer within {LIMIT} s")
            self.buffer += data
        one, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(one)
        if "method" in message:
            self.events.append(message)
            if message["method"] == "Page.javascriptDialogOpening":
                # It would wait for somebody for ever.
                self.number += 1
                answer = {"id": self.number, "method": "Page.handleJavaScriptDialog", "params": {"accept": False}}
                os.write(self.to, json.dumps({**answer, "sessionId": self.session}).encode() + b"\0")
        return message

    def open(self, page, scheme="light", width=1280, height=900, scripts=True):
        """A new tab with this file in it, in which nothing has happened yet."""
        if self.session:
            self.call("Page.close")
            self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=page.as_uri())
        until = time.monotonic() + LIMIT
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.message(until)

    def ask(self, expression):
        """What an expression is in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Failure(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def click(self, selector, at=0):
        """With the mouse, in its middle."""
        box = self.ask(f"""(() => {{
            const found = document.querySelectorAll({json.dumps(selector)})[{at}];
            if (!found) return null;
            found.scrollIntoView({{ block: "center" }});
            const box = found.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        }})()""")
        if box is None:
            raise Failure(f"nothing to click: {selector}")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key, code=None):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "End": 35, "Home": 36}
        params = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes[key]}
        down = {**params, "text": "\r"} if key == "Enter" else params
        self.call("Input.dispatchKeyEvent", type="keyDown", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def type(self, selector, text):
        """As if typed, in place of what is there."""
        self.ask(f"document.querySelector({json.dumps(selector)}).select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.call("Input.dispatchKeyEvent", type="keyDown", key="Delete", code="Delete", windowsVirtualKeyCode=46)

    def screenshot(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def happened(self, *methods):
        self.ask("new Promise((done) => setTimeout(done))")  # what the page has sent before is here then
        return [event["params"] for event in self.events if event["method"] in methods]
