#!/usr/bin/env python3
"""What scripts/gpu_check makes of failures, of time that runs out, and of machines that change between its calls."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts" / "gpu"))
import gpu_losses  # noqa: E402
import gpu_targets  # noqa: E402
from atomic_file import read_json, write_json  # noqa: E402
from gpu_parts import Parts  # noqa: E402
from gpu_results import Results  # noqa: E402
from timed_commands import Failure, OutOfTime, TimedCommands  # noqa: E402


def commands(seconds):
    silent = TimedCommands(seconds, dict(os.environ))
    silent.say = lambda line="": None
    return silent


def is_at_work(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class TimedCommandsTest(unittest.TestCase):
    def test_ends_with_the_command_whatever_it_leaves_running(self):
        start = time.monotonic()
        self.assertEqual(commands(60).run(50, "bash", "-c", "sleep 40 & echo said"), ["said"])
        self.assertLess(time.monotonic() - start, 20)

    def test_neither_waits_for_what_left_the_group_nor_leaves_what_stayed(self):
        start = time.monotonic()
        with self.assertRaises(Failure):
            commands(60).run(3, "bash", "-c", "setsid sleep 31 & echo said; sleep 40")
        self.assertEqual(commands(60).run(50, "bash", "-c", "setsid sleep 32 & echo said"), ["said"])
        pid, = commands(60).run(50, "bash", "-c", "sleep 33 >/dev/null & echo $!")
        self.assertLess(time.monotonic() - start, 25)
        time.sleep(0.5)  # for whoever buries it
        self.assertFalse(is_at_work(int(pid)))

    def test_a_program_that_is_not_there_is_a_failure(self):
        with self.assertRaises(Failure) as missing:
            commands(9).run(5, "/no/such/program")
        self.assertIn("program", str(missing.exception))

    def test_tells_what_takes_too_long_from_what_has_no_time_left(self):
        with self.assertRaises(Failure) as slow:
            commands(60).run(3, "sleep", 30)
        self.assertNotIsInstance(slow.exception, OutOfTime)
        with self.assertRaises(OutOfTime):
            commands(3.5).run(30, "sleep", 30)
        with self.assertRaises(OutOfTime):
            commands(0).run(30, "true")

    def test_several_are_cut_if_none_fails(self):
        def fail(kind):
            raise kind("so")

        with self.assertRaises(OutOfTime):
            commands(9).all_of(lambda: fail(OutOfTime), lambda: None)
        with self.assertRaises(Failure) as mixed:
            commands(9).all_of(lambda: fail(OutOfTime), lambda: fail(Failure))
        self.assertNotIsInstance(mixed.exception, OutOfTime)


class SmokeTest(unittest.TestCase):
    def backend_after(self, outcomes):
        """With exceptions by backend and policy."""
        with tempfile.TemporaryDirectory() as folder:
            logs = pathlib.Path(folder)
            parts = Parts(logs, logs, "build", logs, False, [], False, 100, dict(os.environ))
            parts.say = lambda line="": None

            def train(limit, name, *settings, **options):
                keys = dict(setting.split("=", 1) for setting in settings)
                if failure := outcomes.get((keys["backend"], keys["remat_policy"])):
                    raise failure

            parts.train = train
            try:
                parts.smoke()
                self.assertFalse(outcomes)
            except Failure as failure:
                kinds = {type(outcome) for outcome in outcomes.values()}
                self.assertEqual(type(failure), OutOfTime if kinds == {OutOfTime} else Failure)
            return read_json(logs / "smoke.json")["backend"]

    def test_our_kernels_are_left_only_where_they_fail_and_others_do_not(self):
        wrong, slow = Failure("wrong"), OutOfTime("slow")
        self.assertEqual(self.backend_after({}), "cuda")
        self.assertEqual(self.backend_after({("cuda", "none"): wrong}), "cuda_composed")
        self.assertEqual(self.backend_after({("cuda", "none"): slow}), "cuda")
        self.assertEqual(self.backend_after({("cuda", "minimal_offloaded"): wrong}), "cuda")
        self.assertEqual(self.backend_after({("cuda", "none"): wrong, ("cuda_composed", "none"): wrong}), "cuda")


class ResultsTest(unittest.TestCase):
    def test_go_on_from_their_state_and_keep_models_of_gpus_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            logs, copies = pathlib.Path(folder) / "logs", pathlib.Path(folder) / "copies"
            logs.mkdir()
            copies.mkdir()
            part = {"verdict": "passed", "seconds": 1, "build": "b", "backend": "cuda", "when": "now", "text": "said"}
            write_json(logs / "device.json", {"name": "A 80GB", "driver": "580"})
            Results(logs, copies).add("device", part)
            self.assertIn("A 80GB, driver 580", (copies / "results.md").read_text())

            elsewhere = pathlib.Path(folder) / "elsewhere"
            elsewhere.mkdir()
            (copies / "state.tar.gz").rename(elsewhere / "state.tar.gz")
            results = Results(elsewhere)
            self.assertEqual(results.parts()["device"], part)
            results.keep_to("A 80GB")
            self.assertIn("device", results.parts())
            results.keep_to("B")
            self.assertEqual(results.parts(), {})
            (elsewhere / "pack.tar.xz").write_text("somebody's")
            (elsewhere / "A_80GB" / "pack.tar.xz").write_text("somebody's")
            write_json(elsewhere / "device.json", {"name": "B"})
            results.add("smoke", part)
            with tarfile.open(elsewhere / "state.tar.gz") as state:
                self.assertIn("A_80GB/device.json", state.getnames())
                self.assertFalse([name for name in state.getnames() if "pack" in name])
            results.keep_to("A 80GB")
            self.assertEqual(list(results.parts()), ["device"])
            self.assertTrue((elsewhere / "pack.tar.xz").exists())

    def test_do_without_a_state_that_is_damaged(self):
        with tempfile.TemporaryDirectory() as folder:
            logs = pathlib.Path(folder)
            part = {"verdict": "passed", "seconds": 1, "build": "b", "backend": "cuda", "when": "now", "text": "said"}
            Results(logs).add("device", part)
            whole = (logs / "state.tar.gz").read_bytes()
            for path in logs.iterdir():
                path.unlink()
            (logs / "state.tar.gz").write_bytes(whole[:len(whole) // 2])
            with contextlib.redirect_stdout(io.StringIO()) as said:
                results = Results(logs)
            self.assertIn("damaged", said.getvalue())
            results.add("smoke", part)
            self.assertIn("smoke", Results(logs).parts())

    def test_of_a_dry_run_never_take_the_place_of_a_gpus(self):
        with tempfile.TemporaryDirectory() as folder:
            build, logs = pathlib.Path(folder) / "build", pathlib.Path(folder) / "logs"
            (build / "bin").mkdir(parents=True)
            (build / "bin" / "train").touch()
            logs.mkdir()
            (logs / "state.tar.gz").write_text("of a GPU")
            refused = subprocess.run([ROOT / "scripts" / "gpu_check", "--dry-run", logs, build], capture_output=True, text=True,
                                     check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("has results of a GPU", refused.stderr)
            self.assertEqual((logs / "state.tar.gz").read_text(), "of a GPU")

    def test_runs_that_broke_off_are_no_runs_with_the_same_losses(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = [run for run in gpu_losses.RUNS if run.name in ("none", "again", "full") and run.dtype == "bfloat16"]
            step = '{"loss": 1.5, "grad_norm": 2.0}\n'
            for run, steps in zip(runs, (step * 5, step * 5, step * 4 + step[:9])):
                (pathlib.Path(folder) / run.folder).mkdir()
                (pathlib.Path(folder) / run.folder / "metrics.jsonl").write_text(steps)
            rows = gpu_losses.compare(pathlib.Path(folder), runs)
            self.assertEqual(gpu_targets.same_bits({"losses": rows}).found, 1)

    def test_find_the_best_of_a_policy_that_was_measured_twice(self):
        plans = [{"policy": "auto", "workload": f"states={where}", "memory": {},
                  "measured": {"step_seconds": seconds, "mfu": mfu, "tokens_per_second_per_device": 1}}
                 for where, seconds, mfu in (("device", 1.0, 0.82), ("host", 1.05, 0.78))]
        target = gpu_targets.share_of_products(gpu_targets.plans({"whole_x": {"plans": plans}}, "whole_x"), "x")
        self.assertEqual((target.found, target.verdict), (82, "met"))


unittest.main()
