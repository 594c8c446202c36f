"""What documents of either benchmark say about a run."""


def machine(record):
    facts = record["machine"]
    kind = ", virtual" if facts["virtual"] else ""
    return f"{facts['cores']} cores ({facts['cpu']}{kind})"


def system(record):
    facts = record["machine"]
    return f"{facts['system']}, {facts['libc'] or 'unknown libc'}"


def rounds(record):
    return f"{record['rounds']} interleaved round{'s' if record['rounds'] > 1 else ''}"


def duration(record):
    return f"{record['seconds'] / 60:.0f} minutes in all, seed {record['seed']}"


def date(record):
    return record["time"][:10]


def trial_above_headline(reasons):
    if reasons:
        yield "*Of a trial, to be replaced by a full run: not to be quoted.*"
        yield ""


def trial_above_facts(reasons):
    if reasons:
        yield f"**A trial, not a result** ({'; '.join(reasons)}). A full run replaces it."
        yield ""
