#!/usr/bin/env python3
"""What TensorBoard, CSV readers, MLflow and Weights & Biases have of a run is what its metrics.jsonl has.

usage: tools.py TRAIN

The run goes on from a checkpoint behind which its first process had made two more steps. TensorBoard reads the events
with its own reader; MLflow gives back what it was given; the records of Weights & Biases are read with its own
messages. Every number of every step is compared.
"""

import csv
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_ALLOW_FILE_STORE="true", WANDB_ERROR_REPORTING="false",
                  no_proxy="localhost")

from mlflow.tracking import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
from wandb.proto import wandb_internal_pb2

TAGS = {"loss": "learning/loss", "grad_norm": "learning/grad_norm", "learning_rate": "learning/current_learning_rate",
        "total_weights": "learning/total_weights", "seconds": "perf/step_time_seconds",
        "tokens_per_second_per_device": "perf/per_device_tokens_per_sec",
        "tflops_per_device": "perf/per_device_tflops_per_sec", "mfu": "perf/mfu",
        "device_peak_bytes": "perf/device_peak_bytes", "pinned_host_peak_bytes": "perf/pinned_host_peak_bytes",
        "data_wait_seconds": "perf/data_wait_seconds",
        "checkpoint_stall_seconds": "perf/checkpoint_stall_seconds", "validation_loss": "eval/avg_loss",
        "validation_losses/one": "eval/avg_loss/one", "validation_losses/two": "eval/avg_loss/two",
        "validation_perplexities/one": "eval/avg_perplexity/one",
        "validation_perplexities/two": "eval/avg_perplexity/two"}
SETTINGS = ("backend=cpu dtype=float32 base_emb_dim=32 base_num_decoder_layers=1 "
            "base_num_query_heads=2 base_num_kv_heads=1 head_dim=16 base_mlp_dim=48 vocab_size=712 "
            "max_target_length=32 per_device_batch_size=2 peak_tflops_per_device=1 checkpoint_period=2 eval_interval=2 "
            "sample_tokens=4 sample_prompt=The tokenizer_path=tests/goldens/tokenizers/bytelevel_bpe_llama3").split()


def train(program, folder, *settings):
    for name, words in (("train", "The sea is wide. "), ("one", "A ship sails. "), ("two", "A *harbour* waits. ")):
        (folder / f"{name}.txt").write_text("\n\n".join([words * 8] * 8))
    (folder / "prompts.txt").write_text("A ship\n\nThe *sea*\n")
    subprocess.run([program, "--config", "quickstart.yml", *SETTINGS, f"dataset_path={folder}/train.txt",
                    f"eval_dataset_path=[one={folder}/one.txt, two={folder}/two.txt]",
                    f"eval_prompts_path={folder}/prompts.txt", f"base_output_directory={folder}/runs", "run_name=a",
                    f"tensorboard_dir={folder}/events", *settings], check=True, stdout=subprocess.DEVNULL)


def records(run):
    """Each number of metrics.jsonl, by its key and step, with its time."""
    values = {}
    for record in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        step, at = record.pop("step"), record.pop("time")
        for key, value in record.items():
            for name, number in value.items() if isinstance(value, dict) else [("", value)]:
                values[f"{key}/{name}" if name else key, step] = (number, at)
    return values


def require_equal(what, found, expected):
    assert found.keys() == expected.keys(), (what, set(found) ^ set(expected))
    for key, value in expected.items():
        assert found[key] == value, (what, key, found[key], value)
    print(f"{what}: {len(expected)} numbers", flush=True)


def float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def check_tensorboard(folder, expected):
    files = list((folder / "events" / "a").iterdir())
    assert len(files) == 2, files
    events = EventAccumulator(str(folder / "events" / "a"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    found = {(tag, event.step): [] for tag in events.Tags()["scalars"] for event in events.Scalars(tag)}
    for tag, step in found:
        found[tag, step] = [(event.value, event.wall_time) for event in events.Scalars(tag) if event.step == step]
    require_equal("TensorBoard", found, {(TAGS[key], step): [(float32(value), at)]
                                         for (key, step), (value, at) in expected.items()})
    texts = {(tag, event.step): [cell.decode() for cell in tensor_util.make_ndarray(event.tensor_proto).flat]
             for tag in events.Tags()["tensors"] for event in events.Tensors(tag)}
    assert set(events.PluginTagToContent("text")) == {"config", "num_model_parameters", "sample", "samples"}
    config = (folder / "runs" / "a" / "config.yml").read_text()
    assert texts["config", 4] == ["".join(f"    {line}\n" for line in config.splitlines()) + "    "]
    for step in (1, 3, 5, 7):
        path = folder / "runs" / "a" / "samples" / f"step-{step + 1:08}.jsonl"
        cells = ["prompt", "text"]
        for sample in map(json.loads, path.read_text().splitlines()):
            cells += ["    " + sample[key].replace("\n", "\n    ") for key in ("prompt", "text")]
        assert texts["samples", step] == cells, (texts["samples", step], cells)
    assert texts["sample", 7][0].startswith("    The"), texts["sample", 7]


def check_tensorboards_server(folder, expected):
    """What pages of TensorBoard are sent: by default its server reads files with other code than the above."""
    tags = {}
    for (key, step), (value, at) in sorted(expected.items(), key=lambda item: item[0][1]):
        tags.setdefault(TAGS[key], []).append([at, step, float32(value)])
    server = subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", folder / "events", "--port", "0"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        address = next(match[0] for match in (re.search(r"http://localhost:\d+/", line) for line in server.stderr) if match)

        def sent(tag):
            query = urllib.parse.urlencode({"run": "a", "tag": tag})
            try:
                with urllib.request.urlopen(f"{address}data/plugin/scalars/scalars?{query}") as answer:
                    return json.load(answer)
            except urllib.error.HTTPError:  # it has not read them yet
                return None

        deadline = time.monotonic() + 60
        for tag, values in tags.items():
            while sent(tag) != values and time.monotonic() < deadline:
                time.sleep(0.2)
            assert sent(tag) == values, (tag, sent(tag), values)
    finally:
        server.kill()
        server.communicate()
    print(f"TensorBoard's server: {len(tags)} tags", flush=True)


def export(*arguments):
    subprocess.run([sys.executable, "scripts/export_metrics", *map(str, arguments)], check=True)


def check_csv(folder, expected):
    export("csv", folder / "runs" / "a", folder / "a.csv")
    with open(folder / "a.csv", newline="") as file:
        found = {(key, int(row["step"])): float(value) for row in csv.DictReader(file)
                 for key, value in row.items() if value and key not in ("step", "time")}
    require_equal("CSV", found, {key: value for key, (value, _) in expected.items()})


def check_mlflow(folder, uri, expected):
    export("mlflow", folder / "runs" / "a" / "metrics.jsonl", uri)
    client = MlflowClient(tracking_uri=uri if "://" in uri else pathlib.Path(uri).as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("longshore").experiment_id])
    assert run.info.run_name == "a" and run.info.status == "FINISHED", run.info
    assert run.data.params["checkpoint_period"] == "2", run.data.params
    found = {(key, metric.step): (metric.value, metric.timestamp) for key in run.data.metrics
             for metric in client.get_metric_history(run.info.run_id, key)}
    at = {step: round(seconds * 1000) for (key, step), (_, seconds) in expected.items() if key == "loss"}
    require_equal(f"MLflow, {uri.split(':')[0][-6:]}", found,
                  {(key, step): (value, at[step]) for (key, step), (value, _) in expected.items()})


def wandb_records(path):
    """The messages of a file in the format of LevelDB's log: parts of records in blocks of 32 KiB."""
    data, at, message = path.read_bytes(), 7, b""  # behind the file's own header
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        message += data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(message)
            message = b""


def check_wandb(folder, expected):
    export("wandb", folder / "runs" / "a", folder)
    (path,) = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    found, runs = {}, []
    for record in wandb_records(path):
        if record.WhichOneof("record_type") == "run":
            runs.append(record.run)
        if record.WhichOneof("record_type") != "history":
            continue
        row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        step, at = row.pop("_step"), row.pop("_timestamp")
        assert math.isclose(at, expected["loss", step][1], abs_tol=1e-5), (step, at)
        found.update({(key, step): value for key, value in row.items() if not key.startswith("_")})
    require_equal("Weights & Biases", found, {key: value for key, (value, _) in expected.items()})
    config = {item.key: item.value_json for item in runs[0].config.update}
    assert runs[0].display_name == "a" and config["checkpoint_period"] == "2", runs[0]


def main():
    with tempfile.TemporaryDirectory(prefix="longshore-") as temporary:
        folder = pathlib.Path(temporary)
        os.environ["HOME"] = temporary
        train(sys.argv[1], folder, "steps=6")
        shutil.rmtree(max((folder / "runs" / "a" / "checkpoints").iterdir()))
        train(sys.argv[1], folder, "steps=8")
        expected = records(folder / "runs" / "a")
        assert {step for _, step in expected} == set(range(8))
        assert sorted(step for key, step in expected if key == "validation_loss") == [1, 3, 5, 7]
        stalls = {("checkpoint_stall_seconds", step): (0.0, expected["loss", step][1]) for step in range(8)}
        events = stalls | {key: value for key, value in expected.items() if value[0] is not True}
        check_tensorboard(folder, events)
        check_tensorboards_server(folder, events)
        check_csv(folder, expected)
        check_mlflow(folder, f"sqlite:///{folder}/mlflow.db", expected)
        check_mlflow(folder, str(folder / "mlruns"), expected)
        check_wandb(folder, expected)


main()
