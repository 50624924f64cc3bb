#!/usr/bin/env python3
"""What scripts/draw_step makes of small traces: bars, legends, text and memory."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
LANES = ["compute", "host_to_device", "device_to_host", "host_compute", "network"]
NAMED = [{"name": "thread_name", "ph": "M", "pid": 0, "tid": i, "args": {"name": name}} for i, name in enumerate(LANES)]
SECOND = 1e6  # in microseconds
GIB = 2**30


def event(lane, begin, seconds, name, category="forward", stage="decoder", step=0):
    return {"name": name, "cat": category, "ph": "X", "pid": 0, "tid": LANES.index(lane), "ts": begin * SECOND,
            "dur": seconds * SECOND, "args": {"step": step, "op": "any", "stage": stage, "layer": 0}}


def counter(kind, begin, **gib):
    return {"name": f"{kind} bytes", "ph": "C", "pid": 0, "ts": begin * SECOND,
            "args": {name: int(amount * GIB) for name, amount in gib.items()}}


STEP = [
    event("host_to_device", 0, 1, "decoder.0.compute[0]"),
    event("compute", 1, 1, "linear"), event("compute", 2, 1, "linear"),
    event("compute", 3, 0.5, "query_proj", "backward,recompute"), event("compute", 3.5, 3.5, "linear.grad", "backward"),
    event("device_to_host", 2, 1, "query_proj"),
    event("device_to_host", 7, 1, "decoder.0.gradient", "optimizer", "optimizer"),
    event("host_compute", 8, 2, "adamw", "optimizer", "optimizer"),
]
MEMORY = [counter("device", 1, kept=1, temporaries=0.5, batch=1e-6), counter("device", 3, kept=2, temporaries=0.5),
          counter("device", 7, kept=0, temporaries=0.25), counter("pinned_host", 1, optimizer=50)]


class DrawStepTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longshore-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.trace, self.out = self.folder / "trace.json", self.folder / "step.svg"

    def run_script(self, *title):
        return subprocess.run([sys.executable, ROOT / "scripts/draw_step", self.trace, self.out, *title], text=True,
                              capture_output=True)

    def drawn(self, events, *title):
        """Paths by their titles, what is written, and the description."""
        self.trace.write_text(json.dumps({"traceEvents": NAMED + events}))
        done = self.run_script(*title)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        space = "{http://www.w3.org/2000/svg}"
        root = ElementTree.parse(self.out).getroot()
        paths = {path.find(f"{space}title").text: path.get("d")
                 for path in root.iter(f"{space}path") if path.find(f"{space}title") is not None}
        return paths, [text.text for text in root.iter(f"{space}text")], root.find(f"{space}desc").text

    def test_equal_neighbours_are_one_bar_and_kinds_have_their_own(self):
        paths, written, said = self.drawn(STEP, "Mine & <yours>")
        self.assertEqual(paths["compute: forward, 2 s"], "M195 62h150v24h-150z")  # 750 pixels from 120 for 10 s
        self.assertEqual(paths["compute: recomputed, 0.5 s"], "M345 62h37.5v24h-37.5z")
        self.assertEqual(paths["compute: backward, 3.5 s"], "M382.5 62h262.5v24h-262.5z")
        self.assertEqual(paths["host to device: weights, 1 s"], "M120 94h75v24h-75z")
        self.assertEqual(paths["device to host: activations, 1 s"], "M270 126h75v24h-75z")
        self.assertEqual(paths["device to host: gradients, 1 s"], "M645 126h75v24h-75z")
        self.assertEqual(paths["host compute: optimizer, 2 s"], "M720 158h150v24h-150z")
        self.assertEqual(len(paths), 7)
        self.assertEqual(written[0], "Mine & <yours>")
        self.assertIn("compute works for 60 % of it: forward 2 s, backward 3.5 s, recomputed 0.5 s.", said)

    def test_legend_names_what_is_drawn_and_lanes_that_work(self):
        _, written, said = self.drawn(STEP)
        for name in ["forward", "backward", "recomputed", "optimizer", "weights", "activations", "gradients", "60 %"]:
            self.assertEqual(written.count(name), 1, name)
        for name in ["optimizer states", "batch and results", "network", "device memory"]:
            self.assertNotIn(name, written)
        self.assertNotIn("memory", said)

    def test_memory_is_stacked_in_its_categories(self):
        paths, written, said = self.drawn(STEP + MEMORY)
        kept, both = paths["device memory: kept"], paths["device memory: temporaries"]
        # The panel is 120 high, from 230 to 350, for 2.5 GiB; the fullest counter of a pixel counts.
        self.assertEqual(kept, "M120 350H195V302H345V254H646V350H870V350z")
        self.assertEqual(both, "M120 350H195V278H345V230H646V338H870V350z")
        self.assertEqual((written.count("kept"), written.count("temporaries"), written.count("batch")), (1, 1, 0))
        self.assertIn("2 GiB", written)
        self.assertIn("The device's memory has at most 2.50 GiB, of kept, temporaries.", said)

    def test_a_column_has_the_colour_of_what_takes_most_of_it(self):
        chunks = [event("compute", 0.002 * i, 0.001, "linear") for i in range(5_000)]
        chunks += [event("compute", 0.002 * i + 0.001, 0.0003, "linear.grad", "backward") for i in range(5_000)]
        paths, written, said = self.drawn(chunks)
        self.assertEqual(paths, {"compute: forward, 5 s": "M120 62h750v24h-750z"})
        self.assertIn("65 %", written)  # which is of the events
        self.assertIn("forward 5 s, backward 1.5 s", said)

    def test_only_the_first_step_is_drawn_and_the_same_trace_gives_the_same_bytes(self):
        self.drawn(STEP + MEMORY)
        first = self.out.read_bytes()
        self.drawn(STEP + [event("compute", 11, 5, "linear", step=1)] + MEMORY)
        self.assertEqual(self.out.read_bytes(), first)

    def test_refuses_what_is_no_trace(self):
        for content in ["", "{}", '{"traceEvents": []}', '{"traceEvents": [{"ph": "X"}]}']:
            self.trace.write_text(content)
            done = self.run_script()
            self.assertEqual(done.returncode, 1, content)
            self.assertRegex(done.stderr, r"^draw_step: .*trace\.json: .*\n$")
            self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
