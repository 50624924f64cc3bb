#!/usr/bin/env python3
"""Opens traces of a run and of a plan in Perfetto, and asks its trace processor what it has read.

Usage: perfetto_test.py PROGRAMS_FOLDER
Without Chromium or Perfetto it ends with 77, which ctest takes for skipped.
"""

import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser  # noqa: E402
import perfetto  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
LANES = ["compute", "host_to_device", "device_to_host", "host_compute", "network"]

# Each slice with what Perfetto has of its lane.
SLICES = """create perfetto view lane_slices as
  select ts, dur, slice.name, category, slice.arg_set_id, thread.name as lane,
         extract_arg(slice.arg_set_id, 'args.step') as step, extract_arg(slice.arg_set_id, 'args.stage') as stage
  from slice join thread_track on track_id = thread_track.id join thread using (utid) join process using (upid)
  where process.name = 'longshore'"""


def run(program, *arguments):
    """What it prints."""
    done = subprocess.run([PROGRAMS / program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")
    return done.stdout


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def time_together(*lanes):
    """How long all lanes were busy at once, each a list of (begin, end)."""
    changes = sorted((time, lane, change) for lane, spans in enumerate(lanes)
                     for begin, end in spans for time, change in ((begin, 1), (end, -1)))
    busy, together = [0] * len(lanes), 0
    for (time, lane, change), (after, _, _) in itertools.pairwise(changes):
        busy[lane] += change
        together += after - time if all(busy) else 0
    return together


class Trace:
    """Tests of a file that the class makes."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="longshore-")
        cls.addClassCleanup(temporary.cleanup)
        path = cls.make(pathlib.Path(temporary.name))
        cls.events = json.loads(path.read_text())["traceEvents"]
        cls.names = {event["tid"]: event["args"]["name"] for event in cls.events if event["name"] == "thread_name"}
        cls.slices = [event for event in cls.events if event["ph"] == "X"]
        cls.perfetto = perfetto.Perfetto(path)
        cls.addClassCleanup(cls.perfetto.close)
        cls.query = cls.perfetto.query
        cls.query(SLICES)

    def busy_lanes(self):
        return [lane for lane in LANES if lane in {self.names[event["tid"]] for event in self.slices}]

    def shared(self, lanes, where="true"):
        """How long all lanes were busy at once, as Perfetto joins their slices."""
        joined = None
        for lane in lanes:
            number = self.tables = getattr(self, "tables", 0) + 1
            mine = f"{self._testMethodName}_{number}"
            self.query(f"create perfetto view {mine} as select ts, dur from lane_slices "
                       f"where lane = '{lane}' and dur > 0 and {where}")
            if joined:
                self.query(f"create virtual table {mine}_all using span_join({joined}, {mine})")
                mine += "_all"
            joined = mine
        return self.query(f"select coalesce(sum(dur), 0) as ns from {joined}")[0]["ns"]

    def copies(self, where="true"):
        """(how long copies ran, how long of it kernels ran too), in nanoseconds."""
        def of_any(*others):
            each = [self.shared([lane, *others], where) for lane in ("host_to_device", "device_to_host")]
            return sum(each) - self.shared(["host_to_device", "device_to_host", *others], where)
        return of_any(), of_any("compute")

    def test_nothing_is_dropped_or_repaired(self):
        self.assertEqual(
            self.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0"), [])
        # Those that reach into the next of their row would be its parents.
        self.assertEqual(self.query("select count(*) as slices, max(depth) as deepest from slice"),
                         [{"slices": len(self.slices), "deepest": 0}])

    def test_lanes_are_named_rows(self):
        self.assertEqual(self.query("select tid, thread.name as name from thread join process using (upid) "
                                    "where process.name = 'longshore' order by tid"),
                         [{"tid": tid, "name": name} for tid, name in enumerate(LANES)])
        for lane in self.busy_lanes():
            self.perfetto.wait_for(f"document.body.innerText.match(/^{lane}( |$)/m)")

    def test_slices_have_their_times_names_and_arguments(self):
        arguments = {}
        for row in self.query("select arg_set_id, key, coalesce(int_value, string_value) as value from args"):
            arguments.setdefault(row["arg_set_id"], {})[row["key"].removeprefix("args.")] = row["value"]
        found = [(row["lane"], row["ts"], row["dur"], row["name"], row["category"], arguments[row["arg_set_id"]])
                 for row in self.query("select * from lane_slices")]
        expected = [(self.names[event["tid"]], nanoseconds(event["ts"]), nanoseconds(event["dur"]), event["name"],
                     event["cat"], event["args"]) for event in self.slices]
        self.assertGreater(len(expected), 100)
        self.maxDiff = 2000
        self.assertEqual(sorted(found, key=str), sorted(expected, key=str))

    def test_memory_is_counted(self):
        found = self.query("select process_counter_track.name as name, ts, value "
                           "from counter join process_counter_track on track_id = process_counter_track.id")
        expected = [(f"{event['name']} {category}", nanoseconds(event["ts"]), value) for event in self.events
                    if event["ph"] == "C" for category, value in event["args"].items()]
        self.assertGreater(len(expected), 100)
        self.assertEqual(sorted((row["name"], row["ts"], row["value"]) for row in found), sorted(expected))

    def test_labels_are_sent(self):
        self.assertEqual({row["name"] for row in self.query(
            "select distinct name from lane_slices where lane = 'device_to_host' and category = 'forward' "
            "and stage = 'decoder'")}, self.sent)
        again = self.query("select count(*) as slices from lane_slices where category = 'backward,recompute'")
        self.assertGreater(again[0]["slices"], 0)

    def test_lanes_overlap_as_in_the_file(self):
        spans = {lane: [(nanoseconds(event["ts"]), nanoseconds(event["ts"]) + nanoseconds(event["dur"]))
                        for event in self.slices if self.names[event["tid"]] == lane] for lane in self.busy_lanes()}
        self.assertGreater(len(spans), 2)
        for many in (1, 2, 3):
            for lanes in itertools.combinations(spans, many):
                with self.subTest(lanes=lanes):
                    self.assertEqual(self.shared(lanes), time_together(*(spans[lane] for lane in lanes)))


class OfARun(Trace, unittest.TestCase):
    sent = {"query_proj", "key_proj", "value_proj", "out_proj", "mlpwi_0", "mlpwi_1"}  # minimal_offloaded's

    @classmethod
    def make(cls, folder):
        cls.said = run(
            "train", "--config", "quickstart.yml", "backend=cpu", "dataset_type=synthetic", "dataset_path=",
            "eval_dataset_path=", "tokenizer_path=", "base_emb_dim=64", "base_num_decoder_layers=3",
            "base_num_query_heads=2", "base_num_kv_heads=1", "head_dim=32", "base_mlp_dim=128", "max_target_length=128",
            "per_device_batch_size=1", "vocab_size=61", "dtype=float32", "peak_tflops_per_device=1", "sample_tokens=0",
            "enable_checkpointing=false", "remat_policy=minimal_offloaded", "optimizer_memory_host_offload=true",
            "optimizer_compute=host", "gradient_accumulation_steps=2", "steps=3", "profiler_steps=2",
            "skip_first_n_steps_for_profiler=1", f"base_output_directory={folder}", "run_name=run")
        return folder / "run/trace.json"

    def test_the_run_says_the_same(self):
        said = [float(number) for number in re.search(
            r"in the last, kernels (\S+) s of (\S+) s, copies (\S+) s, (\d+) % of it", self.said).groups()]
        last = "step = (select max(step) from lane_slices)"
        total = self.query(f"select max(ts + dur) - min(ts) as ns from lane_slices where {last}")[0]["ns"]
        copying, hidden = self.copies(last)
        for found, expected in zip((self.shared(["compute"], last), total, copying), said):
            self.assertAlmostEqual(found / 1e9, expected, delta=6e-5)  # of four decimals
        self.assertGreater(copying, 0)
        self.assertAlmostEqual(100 * hidden / copying, said[3], delta=0.6)
        self.assertEqual(hidden, 0)  # on a processor they take turns: docs/offload.md


class OfAPlan(Trace, unittest.TestCase):
    sent = {"query_proj", "key_proj", "value_proj"}  # qkv_proj_offloaded's

    @classmethod
    def make(cls, folder):
        run("plan", "--config", "llama3_8b.yml", "--policies", "qkv_proj_offloaded", "--hardware", "h100",
            "base_num_decoder_layers=4", "optimizer_memory_host_offload=true", "--no-advice", "--trace",
            folder / "trace.json", "--json", folder / "plan.json")
        cls.plan = json.loads((folder / "plan.json").read_text())["plans"][0]
        return folder / "trace.json"

    def test_the_plan_says_the_same(self):
        total = self.query("select max(ts + dur) - min(ts) as ns from lane_slices")[0]["ns"]
        self.assertAlmostEqual(total / 1e9, self.plan["step_seconds"], delta=1e-6)
        exposed = sum(seconds for phase, seconds in self.plan["phases"].items() if phase.startswith("exposed"))
        self.assertAlmostEqual((total - self.shared(["compute"])) / 1e9, exposed, delta=1e-6)
        busiest = self.query("select lane from lane_slices group by lane order by sum(dur) desc limit 1")[0]["lane"]
        self.assertEqual(busiest, self.plan["bottleneck"])

    def test_copies_are_hidden_behind_kernels(self):
        copying, hidden = self.copies()
        self.assertGreater(hidden, 0.1 * copying)
        self.assertLess(hidden, copying)


if __name__ == "__main__":
    if browser.program() is None or not perfetto.FOLDER.exists():
        print(f"no Chromium, or no Perfetto in {perfetto.FOLDER}: scripts/setup --browser installs both")
        sys.exit(77)
    unittest.main()
