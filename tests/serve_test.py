#!/usr/bin/env python3
"""Asks a run that trains with --serve, as browsers, Prometheus and strangers do.

Usage: serve_test.py PROGRAMS_FOLDER
"""

import http.client
import json
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
SMALL = ["--config", "quickstart.yml", "backend=cpu", "dataset_type=synthetic", "dataset_path=", "eval_dataset_path=",
         "tokenizer_path=", "base_emb_dim=16", "base_num_decoder_layers=2", "base_num_query_heads=2",
         "base_num_kv_heads=1", "head_dim=8", "base_mlp_dim=16", "max_target_length=32", "per_device_batch_size=1",
         "vocab_size=61", "dtype=float32", "peak_tflops_per_device=1", "sample_tokens=0"]


class Serve(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longshore-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.errors = tempfile.TemporaryFile("w+")
        self.addCleanup(self.errors.close)

    def train(self, *arguments, limits=None):
        """Trains without end, with that many files at most; gives the port, once some steps are done."""
        def limit():
            if limits:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limits, limits))

        self.process = subprocess.Popen(
            [PROGRAMS / "train", *SMALL, f"base_output_directory={self.folder}", "run_name=a \"b\"", "steps=10000000",
             *arguments], stdout=subprocess.PIPE, stderr=self.errors, text=True, preexec_fn=limit)
        self.addCleanup(self.stop)
        port = None
        for line in self.process.stdout:
            if found := re.search(r"shows itself at http://(.*):(\d+)/", line):
                self.host, port = found[1], int(found[2])
            if line.startswith("completed step: 5,"):
                break
        self.reader = threading.Thread(target=lambda: [None for _ in self.process.stdout])
        self.reader.start()
        return port

    def stop(self):
        """Ends training as a user does, and gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.reader.join()
        self.process.stdout.close()
        self.errors.seek(0)
        self.assertEqual(self.errors.read(), "")
        return code

    def ask(self, path="/", method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer, body

    def test_browsers_prometheus_and_strangers(self):
        self.port = self.train("--serve", "0")
        self.assertEqual(self.host, "127.0.0.1")
        answer, page = self.ask()
        self.assertEqual(answer.status, 200)
        self.assertIn("text/html", answer.getheader("Content-Type"))
        self.assertIn("default-src 'none'", answer.getheader("Content-Security-Policy"))
        self.assertTrue(page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n"))
        self.assertIn("data-live", page)
        # As long as it is fresh, which on a busy machine it may not be when it is asked for again.
        self.assertIn(304, (self.ask(If_None_Match=self.ask()[0].getheader("ETag"))[0].status for _ in range(20)))

        answer, text = self.ask("/metrics")
        self.assertEqual(answer.status, 200)
        values = dict(re.findall(r'^longshore_(\w+)\{run="a \\"b\\""\} (\S+)$', text, re.MULTILINE))
        records = [json.loads(line) for line in (self.folder / 'a "b"' / "metrics.jsonl").read_text().splitlines()]
        self.assertIn(float(values["loss"]), [record["loss"] for record in records])
        self.assertGreaterEqual(int(values["steps_done"]), 5)
        for line in text.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) longshore_\w+ .+|longshore_\w+\{.*\} \S+)$")

        # A name of another site that leads here, other paths, methods that would change something.
        for host in ("evil.example", "127.evil.example", "127.0.0.1.evil.example", "[::2]", "[", ""):
            self.assertEqual(self.ask(Host=host)[0].status, 400, host)
        for host in (f"localhost:{self.port}", "LOCALHOST.", "127.0.0.2", f"[::1]:{self.port}", "[::ffff:127.0.0.1]"):
            self.assertEqual(self.ask(Host=host)[0].status, 200, host)
        for path in ("/metrics.jsonl", "/../../etc/passwd", "/%2e%2e/config.yml", "/config.yml"):
            self.assertEqual(self.ask(path)[0].status, 404, path)
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            answer = self.ask(method=method)[0]
            self.assertEqual((answer.status, answer.getheader("Allow")), (405, "GET, HEAD"), method)
        self.assertEqual(self.ask(method="HEAD")[1], "")

        # Bytes of no protocol, a header without end, and one who says nothing.
        for bytes_ in (b"\x00\xff" * 4000, b"GET / HTTP/1.1\r\nA: " + b"a" * 100000, b"GET " + b"/" * 100000, b""):
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as stranger:
                try:
                    stranger.sendall(bytes_)
                    stranger.shutdown(socket.SHUT_WR)
                    stranger.recv(100)
                except OSError:
                    pass
        silent = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(silent.close)
        self.assertEqual(self.ask()[0].status, 200)

        # It can be reached by this machine alone.
        listening = subprocess.run(["ss", "-ltn"], capture_output=True, text=True).stdout if pathlib.Path(
            "/usr/bin/ss").exists() else f"127.0.0.1:{self.port}"
        self.assertIn(f"127.0.0.1:{self.port}", listening)
        self.assertNotIn(f"0.0.0.0:{self.port}", listening)
        self.assertEqual(self.stop(), 0)
        page = (self.folder / 'a "b"' / "report.html").read_text()
        done = max(json.loads(line)["step"] for line in
                   (self.folder / 'a "b"' / "metrics.jsonl").read_text().splitlines()) + 1
        self.assertIn(f"<dd>{done}</dd>", page)

    def test_connections_without_end_take_no_files_from_training(self):
        self.port = self.train("--serve", "0", limits=100)
        idle = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(120)]
        time.sleep(2)
        files = len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))
        self.assertLess(files, 100)
        for one in idle:
            one.close()
        end = time.monotonic() + 30
        for _ in range(200):  # one after the other they are no crowd
            self.assertEqual(self.ask("/metrics")[0].status, 200)
        self.assertLess(time.monotonic(), end)
        self.assertEqual(self.stop(), 0)

    def test_a_port_that_is_taken_is_refused_before_training(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            for serve, said in ((str(port), f"--serve: 127.0.0.1 port {port}: "), ("99999", "expected a port"),
                                ("203.0.113.1:0", "nearest: an address of this machine"), ("localhost:1", "expected a port"), ("a b", "expected a port")):
                done = subprocess.run([PROGRAMS / "train", *SMALL, f"base_output_directory={self.folder}", "steps=1",
                                       "--serve", serve], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2, serve)
                self.assertIn(said, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_page_takes_at_most_a_hundredth(self):
        """Of one processor's time, over some seconds of steps of milliseconds, of which nobody could want more pages."""
        self.port = self.train("gradient_accumulation_steps=8")
        begin = self.seconds_of_threads()
        time.sleep(8)
        of_report, of_all = (after - before for before, after in zip(begin, self.seconds_of_threads()))
        self.assertGreater(of_all, 4)
        self.assertLess(of_report, 0.02 * 8)
        end = time.monotonic() + 60  # least important, it may wait long for a processor
        while not (self.folder / 'a "b"' / "report.html").exists():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)

    def seconds_of_threads(self):
        """Of the threads that are nice, and of all."""
        nice = everything = 0.0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            seconds = (int(fields[11]) + int(fields[12])) / 100
            everything += seconds
            nice += seconds if int(fields[16]) == 19 else 0
        return nice, everything


if __name__ == "__main__":
    unittest.main()
