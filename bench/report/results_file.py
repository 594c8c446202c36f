"""All samples and verdicts as JSON."""

import json
import os
import platform
import re
import statistics
import subprocess
import time
from collections import defaultdict


def write(options, bench, results, verdicts, slow_modes, matrix):
    by_workload = defaultdict(dict)
    for (workload, contender), figures in results.samples.items():
        if figures:
            by_workload[workload][contender] = {
                figure: {
                    "median": statistics.median(values),
                    "min": min(values),
                    "max": max(values),
                    "samples": values,
                }
                for figure, values in figures.items()
            }
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, cwd=bench)
    document = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "rustc": rustc.stdout.strip(),
        "versions": versions(bench),
        "rounds": results.rounds,
        "quick": options.quick,
        "seconds": results.seconds,
        "seed": options.seed,
        "results": by_workload,
        "declined": sorted(f"{w} {c}" for w, c in results.declined),
        "too_slow": sorted(f"{w} {c}" for w, c in results.too_slow),
        "bars": verdicts,
        "slow_modes": slow_modes,
        "failures": {f"{w} {c}": problem for (w, c), problem in results.failures.items()},
        "matrix": matrix,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")


def versions(bench):
    """Of the peers: what the lock file says of the dependencies in `Cargo.toml`."""
    manifest = (bench / "Cargo.toml").read_text()
    wanted = set(re.findall(r"^([a-z_-]+) = ", manifest, re.MULTILINE))
    locked = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', (bench / "Cargo.lock").read_text())
    return {name: version for name, version in locked if name in wanted}
