"""Runs every workload with every contender, in shuffled rounds."""

import os
import random
import resource
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field

from .go import GO_WORKLOADS

# Most runs take less than a second. On a busy virtual machine, where waking a
# thread can take half a millisecond, one that wakes a thread for each task
# may take a minute; one that takes this long hangs.
TIMEOUT_SECONDS = 150
DECLINED = 3
QUICK_VARIABLE = "TIDEGATE_BENCH_QUICK"

# Ten million tasks, about our pool alone: nothing to do in a hurry.
NOT_IN_QUICK = {"C"}
# Fewer rounds are enough: what these count is exact, changes little, or is a
# median of many within one run.
QUICK_ROUNDS_OF = {"M": 1, "A": 1, "W7": 2, "raw": 1}
FULL_ROUNDS_OF = {"M": 3, "A": 3, "W7": 5, "F": 5, "C": 5, "raw": 5}
# These are about our pool over time, and take long: a few peers, once, show
# the rest.
ONLY_SOME = {"F": {"tidegate", "crossbeam", "kanal", "crossfire", "no_alloc"}}
FULL_ROUNDS_OF_OTHERS = {"F": 1}
# Who takes this long is not the best one, and has fewer rounds in a full run.
FULL_SLOW_SECONDS = 2.5
FULL_ROUNDS_OF_SLOW = 5
# In quick mode nobody waits twice for what took this long.
QUICK_REPEATS_UP_TO_SECONDS = 1.2
# Nor does anybody wait longer than this for a peer: it is not the best one.
QUICK_WAITS_UP_TO_SECONDS = 10


@dataclass
class Results:
    """samples[workload, contender][figure] lists one value per round."""

    samples: dict = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    failures: dict = field(default_factory=dict)
    declined: set = field(default_factory=set)
    too_slow: set = field(default_factory=set)
    rounds: int = 0
    seconds: float = 0.0


class RunFailed(Exception):
    pass


class Declined(Exception):
    pass


class TooSlow(Exception):
    pass


def run_rounds(programs, workloads, contenders, options, after_round=lambda results: None):
    """`programs` says which binary runs a contender."""

    def attempt(pair, patience):
        return run_once(programs[pair[1]], *pair, options.quick, patience)

    return interleave(attempt, Rules(), workloads, contenders, options, after_round)


def interleave(attempt, rules, workloads, contenders, options, after_round=lambda results: None, results=None):
    """Shuffled rounds: `attempt(pair, patience)` gives figures, or raises; `rules` say how often.

    With `results`, adds to them.
    """
    results = results or Results()
    results.rounds = 0
    order = random.Random(options.seed)
    # Of each pair; one slow minute of the machine makes nobody slow.
    shortest = {}
    started, before = time.monotonic(), results.seconds

    def out_of_time():
        # The first round is always whole: without it there is nothing to show.
        late = time.monotonic() - started > options.budget
        return results.rounds > 0 and late

    for round_number in range(1, options.rounds + 1):
        print(f"round {round_number} of {options.rounds}", file=sys.stderr, flush=True)
        for workload in workloads:
            # The contenders of one workload run next to each other, so that
            # a slow minute of the machine hits them all; shuffled, so that
            # none always runs in the wake of the same other.
            for contender in order.sample(contenders, len(contenders)):
                pair = workload, contender
                if out_of_time():
                    break
                if pair in results.failures or pair in results.declined or pair in results.too_slow:
                    continue
                if round_number > rules.rounds_of(workload, contender, options, shortest.get(pair, 0.0)):
                    continue
                if not rules.takes_part(workload, contender):
                    results.declined.add(pair)
                    continue
                hurry = options.quick and not rules.is_ours(contender)
                seconds = _run_into(results, attempt, pair, hurry, rules.patience(hurry))
                shortest[pair] = min(seconds, shortest.get(pair, seconds))
        if out_of_time():
            break
        results.rounds = round_number
        results.seconds = before + time.monotonic() - started
        after_round(results)
    results.seconds = before + time.monotonic() - started
    return results


class Rules:
    """Who runs how often, and for how long at most."""

    def is_ours(self, contender):
        return is_ours(contender)

    def rounds_of(self, workload, contender, options, seconds):
        return rounds_of(workload, contender, options, seconds)

    def takes_part(self, workload, contender):
        return takes_part(workload, contender)

    def patience(self, hurry):
        return QUICK_WAITS_UP_TO_SECONDS if hurry else TIMEOUT_SECONDS


def is_ours(contender):
    return contender.startswith("tidegate")


def rounds_of(workload, contender, options, seconds):
    """How many rounds are enough, when the shortest run took `seconds`. Ours are never cut for being slow."""
    few = QUICK_ROUNDS_OF if options.quick else FULL_ROUNDS_OF
    enough = min(options.rounds, few.get(workload, options.rounds))
    if is_ours(contender) or contender == "machine":
        return enough
    if options.quick:
        return 1 if seconds > QUICK_REPEATS_UP_TO_SECONDS else enough
    enough = min(enough, FULL_ROUNDS_OF_OTHERS.get(workload, enough))
    return min(enough, FULL_ROUNDS_OF_SLOW) if seconds > FULL_SLOW_SECONDS else enough


def takes_part(workload, contender):
    if contender.startswith("go_"):
        return workload in GO_WORKLOADS
    return contender in ONLY_SOME.get(workload, {contender})


def _run_into(results, attempt, pair, hurry, patience):
    started = time.monotonic()
    try:
        figures = attempt(pair, patience)
    except Declined:
        results.declined.add(pair)
    except TooSlow if hurry else ():
        results.too_slow.add(pair)
    except TooSlow:
        results.failures[pair] = f"not done after {patience} s"
    except RunFailed as failure:
        results.failures[pair] = str(failure)
    else:
        for figure, value in figures.items():
            results.samples[pair][figure].append(value)
    return time.monotonic() - started


def run_once(program, workload, contender, quick, patience):
    environment = os.environ | {"RUST_BACKTRACE": "0"}
    environment.pop(QUICK_VARIABLE, None)
    if quick:
        environment[QUICK_VARIABLE] = "1"
    cpu_before, started = cpu_seconds_of_children(), time.monotonic()
    try:
        run = subprocess.run(
            [program, workload, contender],
            capture_output=True,
            text=True,
            timeout=patience,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise TooSlow from None
    wall, cpu = time.monotonic() - started, cpu_seconds_of_children() - cpu_before
    if run.returncode == DECLINED:
        raise Declined
    if run.returncode != 0:
        raise RunFailed(f"exit code {run.returncode}: {' '.join(run.stderr.split())[:400]}")
    figures = {}
    for line in run.stdout.splitlines():
        name, value = line.split()
        figures[name] = float(value)
    # Of the whole process, with start and checks. The cores kept busy tell
    # a pool that is fast from one that merely burns the second core.
    return figures | {"cpu_ms": cpu * 1000, "cores": cpu / wall}


def cpu_seconds_of_children():
    """Only ended children count, and one runs at a time: a difference is one run's."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
