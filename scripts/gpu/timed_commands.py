"""Commands with a time to stop, whose output is shown and kept."""

import concurrent.futures
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time

PATIENCE = 3  # seconds that a command has to end after it was told to


class Failure(Exception):
    """What it says was not said yet."""


class OutOfTime(Failure):
    """Nothing is known to be wrong, but there was no time to end."""


def print_or_go_on(text):
    """Nobody may be there to read it."""
    try:
        print(text, flush=True)
    except OSError:
        pass


def stop_group(child, how):
    """Also what the child has left running."""
    if child:
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            pass


def until_end(said, child, end):
    """The lines in a queue until None comes. Once the child has ended, something else may hold its pipe, and is not waited for."""
    while time.monotonic() < end:
        has_ended = child.poll() is not None
        try:
            line = said.get(timeout=PATIENCE if has_ended else 1)
        except queue.Empty:
            if has_ended:
                return
            continue
        if line is None:
            return
        yield line


class TimedCommands:
    def __init__(self, seconds, environment):
        self.end = time.monotonic() + seconds  # nothing runs on behind it
        self.environment = environment
        self.text = []
        self.children = set()  # that run
        self.task = threading.local()  # its lines, where several run at once

    def say(self, line=""):
        lines = getattr(self.task, "lines", None)
        if lines is not None:
            lines.append(line)
            return
        self.text.append(line)
        print_or_go_on(line)

    def left(self):
        return self.end - time.monotonic()

    def run(self, limit, *command, launcher=(), variables=(), is_shown=lambda line: True):
        """What the command says, line by line, with these variables in its environment. Raises Failure where it fails or
        takes longer than the limit, OutOfTime where less than that was left."""
        is_cut = self.left() < limit
        limit = min(limit, self.left())
        name = pathlib.Path(command[0]).name
        if limit < 3:
            raise OutOfTime(f"no time left for {name}")
        try:
            child = subprocess.Popen([str(word) for word in (*launcher, *command)], stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, env=self.environment | dict(variables), text=True,
                                     errors="replace", start_new_session=True)
        except OSError as failure:
            raise Failure(f"{name}: {failure}") from failure
        self.children.add(child)
        said = queue.SimpleQueue()  # its lines, then None
        out_of_time = threading.Event()

        def read():
            with child.stdout:
                for line in child.stdout:
                    said.put(line.rstrip("\n"))
            said.put(None)

        def stop():
            out_of_time.set()
            stop_group(child, signal.SIGTERM)
            time.sleep(PATIENCE)
            stop_group(child, signal.SIGKILL)

        timer = threading.Timer(limit, stop)
        timer.daemon = True
        timer.start()
        threading.Thread(target=read, daemon=True).start()
        # Nothing is waited for that cannot be killed, as what waits for a driver that hangs.
        end = time.monotonic() + limit + 2 * PATIENCE
        lines, status = [], None
        try:
            for line in until_end(said, child, end):
                lines.append(line)
                if is_shown(line):
                    self.say(line)
            status = child.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            timer.cancel()
            stop_group(child, signal.SIGKILL)  # what it left running
            self.children.discard(child)
        if out_of_time.is_set() or status is None:
            raise (OutOfTime if is_cut else Failure)(f"{name}: stopped after {limit:.0f} s")
        if status != 0:
            raise Failure(f"{name}: exit status {status}")
        return lines

    def all_of(self, *tasks):
        """Each of them, also where one before it fails."""
        self.judge([self.failure_of(task) for task in tasks])

    def at_once(self, count, *tasks):
        """Each of them, up to so many at the same time as there are cores for; each one's lines when it ends."""
        def run(task):
            self.task.lines = lines = []
            try:
                failure = self.failure_of(task)
            finally:
                self.task.lines = None
            with lock:
                for line in lines:
                    self.say(line)
            return failure

        lock = threading.Lock()
        with concurrent.futures.ThreadPoolExecutor(max(1, min(count, os.cpu_count() or 1))) as threads:
            self.judge(list(threads.map(run, tasks)))

    @staticmethod
    def share_of_cores(count):
        """The variables of a process that runs beside others, so many together."""
        return {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // max(1, count)))}

    def failure_of(self, task):
        try:
            task()
        except Failure as failure:
            self.say(str(failure))
            return failure
        return None

    @staticmethod
    def judge(failure_of_each):
        failures = [failure for failure in failure_of_each if failure]
        if failures:
            is_cut = all(isinstance(failure, OutOfTime) for failure in failures)
            how = "had no time to end" if is_cut else "failed"
            raise (OutOfTime if is_cut else Failure)(f"{len(failures)} of {len(failure_of_each)} {how}")
