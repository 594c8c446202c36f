//! V1: what an exporter renders is what Prometheus reads, and what `ops/` asks for is there.
#![cfg(feature = "prometheus")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use tidegate::{Budget, Exporter, Pool, Shutdown};

use crate::exposition::{Family, read};
use crate::gate::Gate;

type TestResult = Result<(), Box<dyn Error>>;

// ---------------------------------------------------------------- a strict reader

#[test]
fn the_reader_is_strict() {
    let head = "# HELP a_total x\n# TYPE a_total counter\n";
    let ok = |line: &str| read(&format!("{head}{line}\n"));
    assert!(ok("a_total{p=\"x\\\\y\\\"\\n\"} 1").is_ok());
    assert!(ok("a_total 1").is_ok() && ok("a_total 1\na_total 1").is_err());
    for line in [
        "a_total{p=\"x\"} -1",
        "a_total{p=\"x\"}",
        "a_total",
        "a_totals 1",
        "a_total{p=\"x} 1",
        "a_total{p=\"\\x\"} 1",
        "a_total{p=\"x\",p=\"y\"} 1",
        "a_total{p-q=\"x\"} 1",
        "b_total{p=\"x\"} 1",
        "a_total{p=\"x\"} 1\na_total{p=\"x\"} 1",
        "a_total{p=\"x\"} 1\n# TYPE a_total counter",
        "",
    ] {
        assert!(ok(line).is_err(), "{line}");
    }
    let head = "# HELP h x\n# TYPE h histogram\n";
    let of = |one: u64, all: u64, count: u64| {
        let bucket = |le: &str, n: u64| format!("h_bucket{{p=\"x\",le=\"{le}\"}} {n}\n");
        let (one, all) = (bucket("1", one), bucket("+Inf", all));
        read(&format!("{head}{one}{all}h_sum{{p=\"x\"}} 1\nh_count{{p=\"x\"}} {count}\n"))
    };
    assert!(of(1, 2, 2).is_ok());
    assert!(of(3, 2, 2).is_err() && of(1, 2, 3).is_err());
}

// ---------------------------------------------------------------- pages of real pools

const NASTY: &str = "a \"pool\" \\ of\nnasty {names}, ü € 🦀 \r\t # HELP";

/// Everything that can be shown, under names that nobody should give.
fn busy_page() -> Result<String, Box<dyn Error>> {
    let nasty = Pool::builder(NASTY).workers(2).queue(8).build()?;
    let plain = Pool::builder("images").workers(1).queue(1).worker_state(|_| 7_u8).build()?;
    let budget = Budget::new("mem\0ory \"\\\n", 10);
    let exporter = Exporter::new();
    exporter.add(&nasty)?;
    exporter.add(&plain)?;
    exporter.add_budget(&budget)?;
    let names = ["", "other", "re\"size", "back\\slash", "new\nline", "ünïcode 🦀", "nul\0", "}"];
    for name in names.into_iter().chain(["x\\\"", "le", "\\n"]) {
        let task = nasty.task(name).budget(&budget, 3).submit_result(|_| Err::<(), _>("no"))?;
        assert!(task.wait().is_err());
    }
    let (gate, held) = (Gate::hold(&plain)?, budget.acquire(4)?);
    let queued = plain.submit(|| ())?;
    assert!(plain.try_submit(|| ()).is_err());
    let page = exporter.render();
    gate.open();
    queued.wait()?;
    drop(held);
    nasty.shutdown(Shutdown::default())?;
    plain.shutdown(Shutdown::default())?;
    Ok(page)
}

fn value(families: &BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let family = families.iter().find(|(family, _)| name.starts_with(family.as_str()));
    let (_, family) = family.unwrap_or_else(|| panic!("there is no {name}"));
    let wanted: BTreeMap<String, String> =
        labels.iter().map(|(label, of)| ((*label).to_owned(), (*of).to_owned())).collect();
    let found = family.samples.iter().find(|(full, labels, _)| full == name && *labels == wanted);
    found.unwrap_or_else(|| panic!("there is no {name}{labels:?}")).2
}

#[test]
fn v1_a_busy_page_keeps_the_format_under_any_name() -> TestResult {
    let families = read(&busy_page()?)?;
    let samples = families.values().flat_map(|family| &family.samples);
    assert!(samples.clone().all(|(_, labels, _)| !labels.is_empty()), "whose is it?");
    let pool = ("pool", "images");
    assert_eq!(value(&families, "tidegate_queue_depth", &[pool]), 1.0);
    assert_eq!(value(&families, "tidegate_queue_capacity", &[pool]), 1.0);
    assert_eq!(value(&families, "tidegate_running_tasks", &[pool]), 1.0);
    assert_eq!(value(&families, "tidegate_refused_total", &[pool, ("reason", "full")]), 1.0);
    assert_eq!(value(&families, "tidegate_workers", &[pool, ("state", "running")]), 1.0);
    assert_eq!(value(&families, "tidegate_pool_state", &[pool, ("state", "running")]), 1.0);
    assert_eq!(value(&families, "tidegate_submit_wait_seconds_count", &[pool]), 2.0);
    let nasty = ("pool", NASTY);
    assert_eq!(value(&families, "tidegate_tasks_total", &[nasty, ("outcome", "failed")]), 11.0);
    let durations = "tidegate_task_duration_seconds_count";
    for name in ["other", "re\"size", "new\nline", "nul\u{2400}", "x\\\"", "\\n"] {
        assert_eq!(value(&families, durations, &[nasty, ("task", name)]), 1.0, "{name}");
    }
    let budget = ("budget", "mem\u{2400}ory \"\\\n");
    assert_eq!(value(&families, "tidegate_budget_in_use", &[budget]), 4.0);
    assert_eq!(value(&families, "tidegate_budget_available", &[budget]), 6.0);
    Ok(())
}

/// `scripts/metrics` sets `TIDEGATE_PROMTOOL`: then it must be there.
#[test]
fn v1_promtool_reads_a_busy_page() -> TestResult {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let started = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut promtool = match started {
        Err(error) if std::env::var_os("TIDEGATE_PROMTOOL").is_none() => {
            println!("skipped: promtool: {error}");
            return Ok(());
        }
        started => started?,
    };
    promtool.stdin.take().expect("is piped").write_all(busy_page()?.as_bytes())?;
    let said = promtool.wait_with_output()?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(said.status.success() && text.is_empty(), "{}: {text}", said.status);
    Ok(())
}

#[test]
fn v1_a_pool_at_full_speed_never_shows_a_counter_that_falls() -> TestResult {
    let pool = Pool::builder("fast").workers(2).queue(2).build()?;
    let exporter = Exporter::new();
    exporter.add(&pool)?;
    let mut last: BTreeMap<(String, BTreeMap<String, String>), f64> = BTreeMap::new();
    let pages = std::thread::scope(|scope| {
        let work = || (0..20_000).try_for_each(|_| pool.spawn(|| ()).map_err(drop));
        let submitters = [scope.spawn(work), scope.spawn(work)];
        let mut pages = Vec::new();
        while pages.len() < 200 && !submitters.iter().all(|submitter| submitter.is_finished()) {
            pages.push(exporter.render());
            std::thread::yield_now();
        }
        pages
    });
    pool.wait_idle()?;
    for page in pages.iter().chain([&exporter.render()]) {
        for (name, family) in read(page)? {
            for (full, labels, value) in family.samples {
                if family.kind != "gauge" {
                    let before = last.insert((full, labels.clone()), value).unwrap_or(0.0);
                    assert!(before <= value, "{name}{labels:?} fell from {before} to {value}");
                }
            }
        }
    }
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v1_two_pools_never_share_a_series() -> TestResult {
    let exporter = Exporter::new();
    let (first, second) =
        (Pool::builder("twin").workers(1).build()?, Pool::builder("twin").workers(1).build()?);
    exporter.add(&first)?;
    exporter.add(&first.clone())?;
    let refused = exporter.add(&second).unwrap_err();
    assert_eq!(refused.name(), "twin");
    let text = refused.to_string();
    assert!(text.starts_with("another pool named \"twin\" is exported"), "{text}");
    // A pool that has stopped is still shown, and gives way.
    first.shutdown(Shutdown::default())?;
    let stopped = "tidegate_pool_state{pool=\"twin\",state=\"stopped\"} 1";
    assert!(exporter.render().contains(stopped));
    exporter.add(&second)?;
    assert!(!exporter.render().contains(stopped));
    assert_eq!(read(&exporter.render())?["tidegate_queue_depth"].samples.len(), 1);
    // One that is gone is not shown, and its name is free at once.
    drop(second);
    let third = Pool::builder("twin").workers(1).build()?;
    exporter.add(&third)?;
    third.shutdown(Shutdown::default())?;
    drop(third);
    assert_eq!(exporter.render(), "");

    let (one, two) = (Budget::new("b", 1), Budget::new("b", 2));
    exporter.add_budget(&one)?;
    exporter.add_budget(&one)?;
    assert!(exporter.add_budget(&two).is_err());
    drop(one);
    assert_eq!(exporter.render(), "");
    exporter.add_budget(&two)?;
    assert!(exporter.render().contains("tidegate_budget_capacity{budget=\"b\"} 2\n"));
    Ok(())
}

#[test]
fn v1_an_exporter_keeps_no_pool_alive() -> TestResult {
    let exporter = Exporter::new();
    let pool = Pool::builder("short").workers(1).build()?;
    exporter.add(&pool)?;
    let gate = Gate::hold(&pool)?;
    let after = pool.submit(|| ())?;
    drop(pool);
    // It drains: that can be seen.
    let closing = "tidegate_pool_state{pool=\"short\",state=\"closing\"} 1";
    assert!(exporter.render().contains(closing), "{}", exporter.render());
    gate.open();
    after.wait()?;
    while !exporter.render().is_empty() {
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn v1_the_number_of_series_is_bounded() -> TestResult {
    let pool = Pool::builder("many").workers(1).build()?;
    let exporter = Exporter::new();
    exporter.add(&pool)?;
    let series = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(series(&exporter.render()), 105);
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    for name in NAMES.get_or_init(|| (0..200).map(|n| format!("task {n}")).collect()) {
        pool.task(name).submit(|_| ())?.wait()?;
    }
    assert_eq!(series(&exporter.render()), 1_275);
    exporter.add_budget(&Budget::new("gone", 1))?;
    let budget = Budget::new("kept", 1);
    exporter.add_budget(&budget)?;
    assert_eq!(series(&exporter.render()), 1_280);
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v1_abandoned_tasks_and_stuck_workers_are_gauges() -> TestResult {
    let pool = Pool::builder("deaf").workers(1).grace(Duration::ZERO).build()?;
    let exporter = Exporter::new();
    exporter.add(&pool)?;
    let barrier = Arc::new(Barrier::new(2));
    let theirs = Arc::clone(&barrier);
    let deaf = pool.submit(move || {
        theirs.wait();
        theirs.wait();
    })?;
    barrier.wait();
    deaf.cancel();
    assert!(deaf.wait().is_err());
    let families = read(&exporter.render())?;
    let of = ("pool", "deaf");
    assert_eq!(value(&families, "tidegate_abandoned_tasks", &[of]), 1.0);
    assert_eq!(value(&families, "tidegate_stuck_workers", &[of]), 1.0);
    barrier.wait();
    while value(&read(&exporter.render())?, "tidegate_abandoned_tasks", &[of]) > 0.0 {
        std::thread::yield_now();
    }
    assert_eq!(value(&read(&exporter.render())?, "tidegate_late_returns_total", &[of]), 1.0);
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[cfg(feature = "tokio")]
#[test]
fn v1_a_poll_that_blocks_is_a_gauge() -> TestResult {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let pool = tidegate::AsyncPool::builder("polls").build_async_on(runtime.handle())?;
    let exporter = Exporter::new();
    exporter.add(pool.as_ref())?;
    let of = |name| {
        Ok::<_, Box<dyn Error>>(value(&read(&exporter.render())?, name, &[("pool", "polls")]))
    };
    let barrier = Arc::new(Barrier::new(2));
    let theirs = Arc::clone(&barrier);
    let blocks = pool.try_submit(async move { _ = theirs.wait() })?;
    while of("tidegate_blocked_workers")? == 0.0 {
        std::thread::yield_now();
    }
    assert_eq!(of("tidegate_blocked_workers")?, 1.0);
    assert!(of("tidegate_longest_poll_seconds")? >= 0.1);
    barrier.wait();
    blocks.wait()?;
    assert_eq!(of("tidegate_blocked_workers")?, 0.0);
    assert_eq!(of("tidegate_longest_poll_seconds")?, 0.0);
    pool.shutdown_blocking(Shutdown::default())?;
    Ok(())
}

// ---------------------------------------------------------------- alerts and dashboard

const ALERTS: &str = include_str!("../../../../ops/alerts.yml");
const ALERTS_TEST: &str = include_str!("../../../../ops/alerts_test.yml");
const DASHBOARD: &str = include_str!("../../../../ops/dashboard.json");
const OPERATE: &str = include_str!("../../../../docs/operate.md");

/// What a file may ask for: the labels of each name, and their values.
type Known = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn known() -> Result<Known, Box<dyn Error>> {
    let mut known = Known::new();
    for (full, labels, _) in read(&busy_page()?)?.into_values().flat_map(|family| family.samples) {
        let of = known.entry(full).or_default();
        for (label, value) in labels {
            of.entry(label).or_default().insert(value);
        }
    }
    // A histogram is also spoken of without a suffix.
    for name in known.keys().cloned().collect::<Vec<_>>() {
        if let Some(plain) = name.strip_suffix("_count") {
            known.insert(plain.to_owned(), known[&name].clone());
        }
    }
    Ok(known)
}

/// What a scrape adds to every series.
const SCRAPED: [&str; 2] = ["job", "instance"];

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    &text[..end.unwrap_or(text.len())]
}

/// Everything that a file of expressions names and that is not there.
fn complaints(text: &str, known: &Known) -> Vec<String> {
    let text = text.replace("\\\"", "\"");
    let mut found = Vec::new();
    for (at, _) in text.match_indices("tidegate_") {
        let name = word(&text[at..]);
        let Some(labels) = known.get(name) else {
            found.push(format!("there is no {name}"));
            continue;
        };
        let Some(rest) = text[at + name.len()..].strip_prefix('{') else { continue };
        let selector = rest.split_once('}').map_or(rest, |(selector, _)| selector);
        for matcher in selector.split("\",").map(|matcher| matcher.trim_end_matches('"')) {
            let label = word(matcher);
            let value = matcher.split_once('"').map_or("", |(_, value)| value);
            match labels.get(label) {
                _ if SCRAPED.contains(&label) => {}
                None => found.push(format!("{name} has no label {label:?}")),
                // These have any name.
                Some(_) if ["pool", "budget", "task"].contains(&label) => {}
                Some(values) => {
                    let missing = value.split('|').filter(|value| !values.contains(*value));
                    found.extend(missing.map(|v| format!("{name} has no {label}={v:?}")));
                }
            }
        }
    }
    let labels: BTreeSet<&str> =
        known.values().flat_map(BTreeMap::keys).map(String::as_str).chain(SCRAPED).collect();
    let lists = ["by (", "without (", "ignoring (", "on ("].into_iter().flat_map(|list| {
        let lists = text.match_indices(list).map(move |(at, list)| at + list.len());
        lists.map(|at| text[at..].split(')').next().unwrap_or("")).collect::<Vec<_>>()
    });
    let after = |mark: &str| {
        text.match_indices(mark).map(|(at, _)| word(&text[at + mark.len()..])).collect::<Vec<_>>()
    };
    let shown = after("{{").into_iter().filter(|label| !label.is_empty());
    let used = lists.flat_map(|list| list.split(", ")).chain(shown).chain(after("$labels."));
    found.extend(used.filter(|l| !labels.contains(l)).map(|l| format!("there is no label {l:?}")));
    found
}

#[test]
fn v1_alerts_and_dashboard_use_only_what_exists() -> TestResult {
    let known = known()?;
    for (file, text) in [("alerts", ALERTS), ("their test", ALERTS_TEST), ("dashboard", DASHBOARD)]
    {
        let complaints = complaints(text, &known);
        assert!(complaints.is_empty(), "{file}: {complaints:#?}");
        assert!(text.matches("tidegate_").count() > 20, "{file} asks for nothing");
    }
    for bad in [
        "tidegate_nothing > 0",
        "tidegate_queue_depth{pol=\"x\"}",
        "tidegate_tasks_total{pool=\"x\",outcome=~\"failed|lost\"}",
        "tidegate_tasks_total{pool=\\\"x\\\",outcome=\\\"lost\\\"}",
        "sum by (pool, outcom) (x)",
        "{{polo}}",
        "{{ $labels.polo }}",
    ] {
        assert_eq!(complaints(bad, &known).len(), 1, "{bad}");
    }
    Ok(())
}

#[test]
fn v1_the_document_names_every_metric_and_every_alert() -> TestResult {
    let complaints = complaints(OPERATE, &known()?);
    assert!(complaints.is_empty(), "docs/operate.md: {complaints:#?}");
    for name in read(&busy_page()?)?.into_keys() {
        assert!(OPERATE.contains(&format!("`{name}`")), "docs/operate.md does not name {name}");
    }
    let mut rules = 0;
    for (rule, severity) in ALERTS.split("- alert: ").skip(1).map(|rule| {
        let severity = rule.split_once("severity: ").map_or("", |(_, rest)| word(rest));
        (word(rule), severity)
    }) {
        let row = format!("\n| {rule} | {severity} | ");
        assert!(OPERATE.contains(&row), "docs/operate.md has no row{row}");
        rules += 1;
    }
    assert_eq!(OPERATE.matches("\n| Tidegate").count(), rules, "it names an alert we do not have");
    Ok(())
}

/// That they do fire is for `promtool test rules` to say, in `scripts/metrics`.
#[test]
fn v1_every_alert_says_what_to_do_and_has_a_case_where_it_fires() {
    let mut alerts = 0;
    for rule in ALERTS.split("- alert: ").skip(1) {
        let name = word(rule);
        for part in ["expr: ", "severity: ", "summary: \"", "action: >-"] {
            assert_eq!(rule.matches(part).count(), 1, "{name}: {part}");
        }
        let case = format!("- alertname: {name}\n");
        let (_, case) = ALERTS_TEST.split_once(&case).unwrap_or_else(|| panic!("{name}: no case"));
        let expected = case.lines().take(4).any(|line| line.contains("- exp_labels: {"));
        assert!(expected, "{name} fires in no case");
        // Just before its time it is silent; at once are those that look back by themselves.
        if !["TidegatePanics", "TidegateRestartsFlapping", "TidegateStoppedIncomplete"]
            .contains(&name)
        {
            assert_eq!(rule.matches(" for: ").count(), 1, "{name} does not wait");
            let minutes = |text: &str| word(text).trim_end_matches('m').parse::<u32>().unwrap();
            let (_, fires) = case.split_once("eval_time: ").unwrap();
            let early = format!("{{ alertname: {name}, eval_time: ");
            let eves = ALERTS_TEST.split(&early).skip(1).map(minutes);
            let eve = eves.filter(|eve| (1..=2).contains(&minutes(fires).saturating_sub(*eve)));
            assert_eq!(eve.count(), 1, "{name}: its case does not say that it waits");
        }
        // Silent in every other case, the healthy one first.
        let silent = format!("{{ alertname: {name}, eval_time: 50m, exp_alerts: [] }}");
        let cases = ALERTS_TEST.matches("- name: ").count();
        assert_eq!(ALERTS_TEST.matches(&silent).count(), cases - 1, "{name}");
        alerts += 1;
    }
    assert_eq!(alerts, 12);
}

#[cfg(feature = "json")]
#[test]
fn v1_the_dashboard_can_be_imported() -> TestResult {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD)?;
    let panels = dashboard["panels"].as_array().ok_or("no panels")?;
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "ids are not unique");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().ok_or("no targets")?;
        assert!(!targets.is_empty() && targets.iter().all(|t| t["expr"].is_string()), "{panel}");
    }
    let variables = dashboard["templating"]["list"].as_array().ok_or("no variables")?;
    let names: Vec<_> = variables.iter().filter_map(|v| v["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "job", "pool"]);
    Ok(())
}
