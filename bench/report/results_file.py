"""All samples, verdicts and what a reader must know of the run, as JSON."""

import json
import statistics
import time
from collections import defaultdict

from . import machine


def facts(bench):
    """Of the machine and of what is measured; taken before the run, since a commit may come during it."""
    return {
        "commit": machine.commit(bench),
        "machine": machine.machine(),
        "versions": machine.versions(bench),
    }


def write(options, known, workloads, roles, results, verdicts, slow_modes, **more):
    by_workload = defaultdict(dict)
    for workload in workloads:
        for contender in roles:
            figures = results.samples.get((workload, contender))
            if figures:
                by_workload[workload][contender] = {f: _summary(v) for f, v in figures.items()}
    document = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **known,
        "rounds": results.rounds,
        "quick": options.quick,
        "only": options.only,
        "seconds": results.seconds,
        "seed": options.seed,
        "contenders": roles,
        "results": by_workload,
        "declined": sorted(f"{w} {c}" for w, c in results.declined),
        "too_slow": sorted(f"{w} {c}" for w, c in results.too_slow),
        "bars": verdicts,
        "slow_modes": slow_modes,
        "failures": {f"{w} {c}": problem for (w, c), problem in results.failures.items()},
        **more,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")


def _summary(values):
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "samples": values,
    }
