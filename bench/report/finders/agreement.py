"""Who has found exactly the sets that were made, in every run."""

from .workloads import tree_of


def on(tree, contenders, measured, failures):
    """(who has, who has not) of those who were asked; references are no finders of their own.

    `contenders` has their roles; the last two are pairs of workload and contender.
    """
    contenders = [contender for contender, role in contenders.items() if role != "reference"]
    failed = {contender for workload, contender in failures if tree_of(workload) == tree}
    asked = failed | {contender for workload, contender in measured if tree_of(workload) == tree}
    return [c for c in contenders if c in asked - failed], [c for c in contenders if c in failed]
