"""Tables of figures for documents: a row per contender."""

from .numbers import number
from .record import MEDIAN, RUNS
from .tables import figures_of_all

_ORDER = ("ours", "peer", "reference")


def ranked(values, roles):
    """The keys of `values`: ours first, references last, then the smallest."""
    return sorted(values, key=lambda contender: (_ORDER.index(roles[contender]), values[contender]))


def styled(contender, role):
    return {"ours": f"**{contender}**", "reference": f"*{contender}*"}.get(role, contender)


def heading(workload, figure, columns):
    only_one = len({f for _, f in columns}) == 1
    return workload if only_one else f"{workload} {figure}"


def medians(record, columns, in_thousands=False, heading=heading):
    """`columns` are (workload, figure); the best peer of a column is bold."""
    columns = [(w, f) for w, f in columns if w in record["results"]]
    if not columns:
        yield "Not measured in this run."
        return
    values = {}
    for workload, figure in columns:
        for contender, figures in record["results"][workload].items():
            if figure in figures:
                values.setdefault(contender, {})[workload, figure] = figures[figure][MEDIAN]
    roles = record["contenders"]
    first = {contender: row.get(columns[0], float("inf")) for contender, row in values.items()}

    yield "| | " + " | ".join(heading(*column, columns) for column in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for contender in ranked(first, roles):
        cells = [_cell(contender, column, values, roles, in_thousands) for column in columns]
        yield f"| {styled(contender, roles[contender])} | " + " | ".join(cells) + " |"


def _cell(contender, column, values, roles, in_thousands):
    value = values[contender].get(column)
    if value is None:
        return ""
    peers = [row[column] for c, row in values.items() if column in row and roles[c] == "peer"]
    is_best = roles[contender] == "peer" and number(value) == number(min(peers))
    text = number(value / 1000 if in_thousands else value)
    return f"**{text}**" if is_best else text


def full_tables(record, introduction, unit):
    """Every figure of every contender with its spread; `unit` says what the figures of a workload are."""
    yield "# All figures"
    yield ""
    yield introduction
    for workload, contenders in record["results"].items():
        figures = figures_of_all(contenders.values())
        first = figures[0]
        yield ""
        yield f"## {workload}: {unit(workload)}"
        yield ""
        yield "| | runs | " + " | ".join(figures) + " |"
        yield "|---" * (len(figures) + 2) + "|"
        for contender in sorted(contenders, key=lambda c: contenders[c].get(first, [float("inf")])[MEDIAN]):
            row = contenders[contender]
            cells = [_with_spread(row.get(figure)) for figure in figures]
            runs = max(summary[RUNS] for summary in row.values())
            yield f"| {styled(contender, record['contenders'][contender])} | {runs} | " + " | ".join(cells) + " |"


def _with_spread(summary):
    if summary is None:
        return ""
    median, low, high, runs = summary
    return number(median) if runs == 1 else f"{number(median)} ({number(low)}..{number(high)})"
