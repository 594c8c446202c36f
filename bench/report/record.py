"""The run that the documents show: what is kept of a results file, in the repository.

Medians with their spread and all verdicts, without the single samples, so that
every figure in a document can be made again from it.
"""

import json
import re

from .matrix import NOT_OFFERED

# A run of fewer rounds, or of a part of the workloads, is only a trial.
ROUNDS_TO_PUBLISH = 15
# What a figure becomes.
MEDIAN, LOW, HIGH, RUNS = range(4)
_DIGITS = 5
_KEPT = (
    "time commit machine versions rounds quick only seconds seed contenders too_slow failures"
).split()


def condense(document):
    return condense_shared(document) | {"matrix": _matrix(document["matrix"])}


def condense_shared(document):
    """What the results files of both benchmarks have. Each figure becomes [median, min, max, number of runs]."""
    results = {
        workload: {
            contender: {figure: _short(summary) for figure, summary in figures.items()}
            for contender, figures in contenders.items()
        }
        for workload, contenders in document["results"].items()
    }
    record = {key: document[key] for key in _KEPT}
    record["seconds"] = round(record["seconds"])
    record["failures"] = {pair: without_paths(problem) for pair, problem in record["failures"].items()}
    rounded = {key: [_rounded(verdict) for verdict in document[key]] for key in ("bars", "slow_modes")}
    return record | {"results": results} | rounded


def _short(summary):
    numbers = [summary[key] for key in ("median", "min", "max")]
    return [digits(value) for value in numbers] + [len(summary["samples"])]


def _rounded(verdict):
    return {key: digits(value) if isinstance(value, float) else value for key, value in verdict.items()}


def digits(value):
    return float(f"{value:.{_DIGITS}g}")


def _matrix(matrix):
    """Why something is not offered can be read in the code; why something failed can't."""
    if matrix is None:
        return None
    failed = {
        kind: {t: without_paths(why) for t, why in reasons.items() if matrix["outcomes"][kind][t] != NOT_OFFERED}
        for kind, reasons in matrix["reasons"].items()
    }
    return {"outcomes": matrix["outcomes"], "reasons": failed}


def without_paths(text):
    """Panics say where the sources are on the machine that built them."""
    return re.sub(r"(?<![\w.])/(?:[\w.+@-]+/)+", "", text)


def why_trial(record):
    """What keeps a run from being published; nothing of a full one."""
    reasons = ["--quick"] if record["quick"] else []
    if record["only"]:
        reasons.append(f"--only {record['only']}")
    if record["rounds"] < ROUNDS_TO_PUBLISH:
        reasons.append(f"{record['rounds']} rounds instead of {ROUNDS_TO_PUBLISH}")
    return reasons


def text(record):
    """One line per contender of a workload: what a new run changes can be seen in a diff."""
    return _lines(record, 3, "") + "\n"


def _lines(value, depth, indent):
    inner = indent + " "
    if depth and isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(key)}: {_lines(v, depth - 1, inner)}" for key, v in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}" + "}"
    if depth and isinstance(value, list) and value and isinstance(value[0], dict):
        rows = [f"{inner}{json.dumps(item, ensure_ascii=False)}" for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
