"""The conformance suite on tidegate and on peers: which rule holds where."""

import subprocess
from collections import Counter, defaultdict

PASSED, FAILED, HANGS, NOT_OFFERED = "passed", "failed", "hangs", "not offered"
MARKS = {PASSED: "✓", FAILED: "**failed**", HANGS: "**hangs**", NOT_OFFERED: "-"}
# Per test; a test of a million tasks gets five times as long.
LIMIT_SECONDS = 20
# The suite ends a process that hangs; this is for one that can't even do that.
KIND_SECONDS = 900


def run(program):
    """{kind: {test: outcome}}, and {kind: {test: why}} for what failed."""
    listing = subprocess.run([program, "list"], capture_output=True, text=True, check=True)
    kinds, tests = [], []
    for line in listing.stdout.splitlines():
        what, name = line.split()
        (kinds if what == "kind" else tests).append(name)
    outcomes, reasons = {}, {}
    for kind in kinds:
        outcomes[kind], reasons[kind] = run_kind(program, kind, tests)
    return outcomes, reasons


def run_kind(program, kind, tests, run_from=None):
    """A test that hangs ends its process: the next process begins behind it."""
    run_from = run_from or _run_from
    outcomes, reasons = {}, {}
    begin = 0
    while begin < len(tests):
        lines = run_from(program, kind, tests[begin])
        found, why = parse(lines)
        outcomes |= found
        reasons |= why
        done = begin + len(found)
        if done < len(tests):
            outcomes[tests[done]] = HANGS
            reasons[tests[done]] = f"no end within {LIMIT_SECONDS} s, or the process ended"
        begin = done + 1
    return outcomes, reasons


def _run_from(program, kind, test):
    command = [program, kind, test, str(LIMIT_SECONDS)]
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=KIND_SECONDS)
        return run.stdout.splitlines()
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode().splitlines()


def parse(lines):
    """Lines are `TEST OUTCOME why`; a test that only began has no line."""
    outcomes, reasons = {}, {}
    for line in lines:
        test, outcome, *why = line.split(" ", 2)
        outcomes[test] = {"passed": PASSED, "failed": FAILED, "skipped": NOT_OFFERED}[outcome]
        if outcome != "passed":
            reasons[test] = why[0] if why else ""
    return outcomes, reasons


def clause(test):
    """`R5_drop_oldest` is about R5; `hazard_33_…` is one of the hazards."""
    head = test.split("_")[0]
    return {"C": "contracts", "hazard": "hazards"}.get(head, head)


def markdown(outcomes, reasons):
    """A row per clause with the number of tests that passed; then each failure."""
    kinds = list(outcomes)
    by_clause = defaultdict(lambda: {kind: Counter() for kind in kinds})
    for kind, tests in outcomes.items():
        for test, outcome in tests.items():
            by_clause[clause(test)][kind][outcome] += 1
    yield "| clause | " + " | ".join(kinds) + " |"
    yield "|---" * (len(kinds) + 1) + "|"
    for name, row in by_clause.items():
        yield f"| {name} | " + " | ".join(_cell(row[kind]) for kind in kinds) + " |"
    sums = [Counter(tests.values()) for tests in outcomes.values()]
    yield "| all | " + " | ".join(_cell(total) for total in sums) + " |"
    yield ""
    failures = [
        f"- {kind} {test} {outcome}: {reasons[kind].get(test, '')[:160]}"
        for kind, tests in outcomes.items()
        for test, outcome in tests.items()
        if outcome in (FAILED, HANGS)
    ]
    ending = "What failed:" if failures else "Nothing failed."
    yield f"Passed of offered; `-`: nothing of it is offered. {ending}"
    yield ""
    yield from failures


def page(matrix):
    """All of it as a document of its own; `matrix` is what a record has."""
    yield "# Who keeps which rule"
    yield ""
    yield (
        "Written by `bench/document`. The [conformance suite](../../crates/tidegate-conformance/README.md) on "
        "tidegate and on other pools, where they offer what a test asks; the rules are in "
        "[contract.md](../contract.md), what was added around a pool to ask at all in `bench/src/bin/matrix/`. "
        "Nobody else has promised these rules: a failure here is a difference, not a fault."
    )
    yield ""
    if matrix is None:
        yield "The suite was not part of this run."
    else:
        yield from markdown(matrix["outcomes"], matrix["reasons"])


def totals(outcomes):
    """(kind, (passed, failed, hangs, not offered))"""
    for kind, tests in outcomes.items():
        count = Counter(tests.values())
        yield kind, tuple(count[outcome] for outcome in (PASSED, FAILED, HANGS, NOT_OFFERED))


def _cell(counts):
    offered = counts[PASSED] + counts[FAILED] + counts[HANGS]
    if offered == 0:
        return MARKS[NOT_OFFERED]
    share = f"{counts[PASSED]} of {offered}"
    return share if counts[PASSED] == offered else f"**{share}**"
