#!/usr/bin/env python3
"""Looks at every page that the programs write in a headless Chromium: wide and narrow, light and dark.

Usage: pages_test.py PROGRAMS_FOLDER
Without Chromium it ends with 77, which ctest takes for skipped.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
WIDTHS = (360, 1600)
SMALL = ["--config", "quickstart.yml", "backend=cpu", "dataset_type=synthetic", "dataset_path=", "eval_dataset_path=",
         "tokenizer_path=", "base_emb_dim=16", "base_num_decoder_layers=2", "base_num_query_heads=2",
         "base_num_kv_heads=1", "head_dim=8", "base_mlp_dim=16", "max_target_length=32", "per_device_batch_size=1",
         "vocab_size=61", "dtype=float32", "peak_tflops_per_device=1", "sample_tokens=0", "enable_checkpointing=false"]

# Elements that reach beyond the window, other than inside of what scrolls by itself.
BEYOND = """[...document.querySelectorAll('body *')].filter(e => {
  if (e.closest('.scroll, pre, svg, script') && !e.matches('.scroll, pre, svg')) return false;
  const box = e.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40))"""

# Texts of an axis that stand on each other.
CROWDED = """[...document.querySelectorAll('.axis, .x-axis, .y-axis')].flatMap(axis => {
  const boxes = [...axis.querySelectorAll('span')].map(e => [e.getBoundingClientRect(), e.textContent])
    .filter(([box]) => box.width > 0);
  return boxes.flatMap(([a, text], i) => boxes.slice(i + 1).filter(([b]) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(([, other]) => text + ' and ' + other));
})"""

# The contrast of text and its background, as WCAG 2 has it.
CONTRAST = """(() => {
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const page = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll('h1, p, td, th, dt, dd, figcaption span, .label, .value, .y-axis span, summary')]
    .map(e => { const ink = light(getComputedStyle(e).color);
                return [(Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05), e.tagName + '.' + e.className]; })
    .filter(([contrast]) => contrast < 4.5);
})()"""


def run(program, *arguments):
    done = subprocess.run([PROGRAMS / program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="longshore-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        for name, rate in (("first", "0.01"), ("a-second-run-with-a-name-that-is-longer-than-a-phone-is-wide", "0.001")):
            run("train", *SMALL, f"base_output_directory={cls.folder}", f"run_name={name}", f"learning_rate={rate}",
                "steps=40", "profiler_steps=1")
        cls.write_crowded()
        run("report", cls.folder / "crowded")
        cls.runs = sorted(path.parent for path in cls.folder.glob("*/report.html"))
        run("report", *cls.runs, "--html", cls.folder / "runs.html")
        run("plan", "--config", "llama3_8b.yml", "--hardware", "h100", "--policies", "full,qkv_proj_offloaded",
            "base_num_decoder_layers=4", "optimizer_memory_host_offload=true", "--html", cls.folder / "plan.html",
            "--no-advice")
        run("compare", *[one for one in SMALL if "enable_checkpointing" not in one], "--policies", "full,none",
            "--steps", "4", "--rounds", "2", "--html", cls.folder / "compare.html")
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def write_crowded(cls):
        """A run whose axes have as many and as long texts as any."""
        folder = cls.folder / "crowded"
        folder.mkdir()
        (folder / "metrics.jsonl").write_text("".join(
            json.dumps({"step": 1_000_000 + i, "seconds": 4.9e-3, "loss": 1 + i * 1e-5}) + "\n" for i in range(480)))
        (folder / "trace.json").write_text(json.dumps({"traceEvents": [
            {"ph": "M", "name": "thread_name", "tid": 1, "args": {"name": "compute"}},
            {"ph": "X", "name": "a", "cat": "forward", "tid": 1, "ts": 0, "dur": 4900,
             "args": {"op": "a", "stage": "layers", "step": 1}}]}))

    def pages(self):
        return [run_folder / "report.html" for run_folder in self.runs] + [
            self.folder / name for name in ("runs.html", "plan.html", "compare.html")]

    def test_nothing_overflows_and_the_console_is_silent(self):
        self.assertEqual(len(self.pages()), 6)
        for page in self.pages():
            for width in WIDTHS:
                with self.subTest(page=page.name, width=width):
                    self.browser.open(page.as_uri(), width)
                    self.browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
                    self.assertEqual(self.browser.value(BEYOND), [])
                    self.assertEqual(self.browser.value(CROWDED), [])
                    self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                    self.assertEqual(self.browser.complaints(), [])

    def test_nothing_is_loaded_from_elsewhere(self):
        for page in self.pages():
            text = page.read_text()
            self.assertEqual(re.findall(r'(?:src|href)="(?!data:,)[^"]*"', text), [], page)
            self.assertNotRegex(text, r"@import|url\(")

    def test_text_stands_out_in_light_and_dark(self):
        for page in self.pages():
            grounds = []
            for scheme in ("light", "dark"):
                with self.subTest(page=page.name, scheme=scheme):
                    self.browser.open(page.as_uri(), 1200, scheme=scheme)
                    self.assertEqual(self.browser.value(CONTRAST), [])
                    grounds.append(self.browser.value("getComputedStyle(document.body).backgroundColor"))
            self.assertEqual(len(set(grounds)), 2)

    def test_keys_read_values_out(self):
        self.browser.open((self.runs[0] / "report.html").as_uri(), 1200)
        reading = "document.querySelector('.plot .reading').textContent"
        self.browser.value("document.querySelector('.plot .canvas').focus()")
        self.assertRegex(self.browser.value(reading), r"^step 39: ")
        self.browser.press("ArrowLeft")
        self.assertRegex(self.browser.value(reading), r"^step 38: ")
        self.browser.press("Home")
        first = self.browser.value(reading)
        record = json.loads((self.runs[0] / "metrics.jsonl").read_text().splitlines()[0])
        self.assertAlmostEqual(float(re.match(r"step 0: ([\d.]+)", first)[1]), record["loss"], delta=1e-4)

    def test_each_chart_can_be_reached_by_tab(self):
        self.browser.open((self.runs[0] / "report.html").as_uri(), 1200)
        charts = self.browser.value("document.querySelectorAll('.plot .canvas[tabindex=\"0\"]').length")
        self.assertEqual(charts, self.browser.value("document.querySelectorAll('.plot').length"))
        self.assertGreater(charts, 4)
        # Drawings without values to read out have their numbers below them.
        self.assertEqual(self.browser.value("document.querySelectorAll('.lanes, .area').length"),
                         self.browser.value("[...document.querySelectorAll('summary')].filter("
                                            "e => /^In (words|numbers)$/.test(e.textContent)).length"))

    def test_a_served_page_renews_itself(self):
        said = self.folder / "served.txt"
        with open(said, "w") as out:
            train = subprocess.Popen([PROGRAMS / "train", *SMALL, f"base_output_directory={self.folder}",
                                      "run_name=served", "steps=1000000", "--serve", "0"], stdout=out)
        self.addCleanup(train.wait)
        self.addCleanup(train.terminate)
        while "completed step: 9," not in said.read_text():
            time.sleep(0.1)
        url = re.search(r"shows itself at (\S+)", said.read_text())[1]
        self.browser.open(url, 1200)
        self.browser.value("document.querySelector('details').open = true")
        steps = "parseInt(document.querySelector('.tiles dd').textContent)"
        before, end = self.browser.value(steps), time.monotonic() + 30
        while self.browser.value(steps) == before and time.monotonic() < end:
            time.sleep(0.5)
        self.assertGreater(self.browser.value(steps), before)
        self.assertTrue(self.browser.value("document.querySelector('details').open"))
        self.assertEqual(self.browser.complaints(), [])


if __name__ == "__main__":
    if browser.program() is None:
        print("no Chromium: scripts/setup --browser installs it")
        sys.exit(77)
    unittest.main()
