"""Commands with a time to stop, whose output is shown and kept."""

import os
import pathlib
import signal
import subprocess
import threading
import time


class Failure(Exception):
    """What it says was not said yet."""


def stop_group(child, how):
    if child and child.poll() is None:
        os.killpg(child.pid, how)


class TimedCommands:
    def __init__(self, seconds, environment):
        self.end = time.monotonic() + seconds  # nothing runs on behind it
        self.environment = environment
        self.text = []
        self.child = None  # the newest

    def say(self, line=""):
        print(line, flush=True)
        self.text.append(line)

    def left(self):
        return self.end - time.monotonic()

    def run(self, limit, *command, launcher=(), is_shown=lambda line: True):
        """What the command says, line by line. Raises Failure where it fails or runs out of time."""
        limit = min(limit, self.left())
        name = pathlib.Path(command[0]).name
        if limit < 3:
            raise Failure(f"no time left for {name}")
        child = subprocess.Popen([str(word) for word in (*launcher, *command)], stdout=subprocess.PIPE, env=self.environment,
                                 stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        self.child = child
        out_of_time = threading.Event()

        def stop():
            out_of_time.set()
            stop_group(child, signal.SIGTERM)
            time.sleep(3)
            stop_group(child, signal.SIGKILL)

        timer = threading.Timer(limit, stop)
        timer.daemon = True
        timer.start()
        lines = []
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            if is_shown(lines[-1]):
                self.say(lines[-1])
        status = child.wait()
        timer.cancel()
        if out_of_time.is_set():
            raise Failure(f"{name}: stopped after {limit:.0f} s")
        if status != 0:
            raise Failure(f"{name}: exit status {status}")
        return lines

    def all_of(self, *tasks):
        """Each of them, also where one before it fails."""
        failures = []
        for task in tasks:
            try:
                task()
            except Failure as failure:
                self.say(str(failure))
                failures.append(failure)
        if failures:
            raise Failure(f"{len(failures)} of {len(tasks)} failed")
