//! The sum over a binary tree by fork and join: a scope for each fork, however deep they nest.

use std::error::Error;

use tidegate::{Pool, Shutdown};

struct Node {
    value: u64,
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let trees = [("bush", bush(12)), ("vine", vine(150))];
    for workers in [1, 8] {
        let pool = Pool::builder("tree").workers(workers).queue(4).build()?;
        for (name, tree) in &trees {
            // The first task; from here on every fork happens inside the pool.
            let total = pool.scope(|s| s.submit(|| sum(&pool, tree)).expect("open").wait())?;
            assert_eq!(total, sum_alone(tree));
            println!("workers {workers}: the {name} sums up to {total}");
        }
        let seen = pool.snapshot();
        println!("  {} tasks, {} of them on top of another", seen.accepted, seen.nested);
        let report = pool.shutdown(Shutdown::default())?;
        assert!(report.is_success(), "{report}");
    }
    Ok(())
}

/// Forks the left side, does the right one itself, and joins at the end of the scope.
fn sum(pool: &Pool, node: &Node) -> u64 {
    let (Some(left), Some(right)) = (&node.left, &node.right) else {
        let only = node.left.as_ref().or(node.right.as_ref());
        return node.value + only.map_or(0, |only| sum(pool, only));
    };
    pool.scope(|s| {
        let left = s.submit(|| sum(pool, left)).expect("the pool is open");
        let right = sum(pool, right);
        // Still queued, it runs here, on top of this task, however deep that goes: allow a few
        // KiB of stack for each level (`Builder::stack_size`).
        let left = left.wait().expect("nobody shuts the pool down meanwhile");
        node.value + left + right
    })
}

fn sum_alone(node: &Node) -> u64 {
    let sides = [&node.left, &node.right].into_iter().flatten();
    node.value + sides.map(|side| sum_alone(side)).sum::<u64>()
}

/// Balanced: every node down to `depth` has two children.
fn bush(depth: u64) -> Node {
    let side = || (depth > 1).then(|| Box::new(bush(depth - 1)));
    Node { value: depth, left: side(), right: side() }
}

/// Unbalanced: one long stem, with a single leaf at each fork.
fn vine(length: u64) -> Node {
    let leaf = |value| Node { value, left: None, right: None };
    let grow = |stem: Node, value| Node {
        value,
        left: Some(Box::new(stem)),
        right: Some(Box::new(leaf(1))),
    };
    (1..=length).fold(leaf(0), grow)
}
