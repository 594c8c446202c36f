//! A strict reader of Prometheus' text format: a page that it accepts is one.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    /// Name with its suffix, labels, value.
    pub(crate) samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `{a="b",c="d"}`: the labels, and what follows.
fn labels_of(text: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    let mut rest = text.strip_prefix('{').ok_or("no labels")?;
    loop {
        let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(label) {
            return Err(format!("{label:?} is no label"));
        }
        let (mut value, mut chars) = (String::new(), after.chars());
        loop {
            match chars.next().ok_or("a value without an end")? {
                '"' => break,
                '\\' => value.push(match chars.next() {
                    Some('n') => '\n',
                    Some(c @ ('\\' | '"')) => c,
                    other => return Err(format!("escaped {other:?}")),
                }),
                '\0' => return Err("a NUL".to_owned()),
                c => value.push(c),
            }
        }
        if labels.insert(label.to_owned(), value).is_some() {
            return Err(format!("{label} twice"));
        }
        rest = chars.as_str();
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Ok((labels, rest.strip_prefix('}').ok_or("no }")?)),
        }
    }
}

/// The rules of the text format 0.0.4, and a few that only good pages keep.
pub(crate) fn read(page: &str) -> Result<BTreeMap<String, Family>, String> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut helped) = (String::new(), String::new());
    let mut seen = BTreeSet::new();
    if !page.is_empty() && !page.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for line in page.split_terminator('\n') {
        let wrong = |what: &str| Err(format!("{what}: {line:?}"));
        if let Some(help) = line.strip_prefix("# HELP ") {
            let Some((name, text)) = help.split_once(' ') else { return wrong("no help") };
            if text.trim().is_empty() || text.contains('\\') || families.contains_key(name) {
                return wrong("bad or second HELP");
            }
            helped = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = kind.split_once(' ') else { return wrong("no type") };
            let known = ["counter", "gauge", "histogram"].contains(&kind);
            let total = name.ends_with("_total") == (kind == "counter");
            if name != helped || !known || !total || !is_name(name) {
                return wrong("bad TYPE, or without its HELP");
            }
            current = name.to_owned();
            let family = Family { kind: kind.to_owned(), ..Family::default() };
            if families.insert(current.clone(), family).is_some() {
                return wrong("TYPE twice");
            }
        } else {
            let Some(at) = line.find(['{', ' ']) else { return wrong("no value") };
            let (labels, rest) = match line[at..].starts_with('{') {
                true => labels_of(&line[at..]).map_err(|e| format!("{e}: {line:?}"))?,
                false => (BTreeMap::new(), &line[at..]),
            };
            let value = rest.strip_prefix(' ').and_then(|value| value.parse::<f64>().ok());
            let Some(value) = value.filter(|value| *value >= 0.0) else { return wrong("value") };
            let Some(suffix) = line[..at].strip_prefix(&current) else {
                return wrong("outside of its family");
            };
            let family = families.get_mut(&current).expect("has its TYPE");
            let suffixes: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            if !suffixes.contains(&suffix) || (suffix == "_bucket") != labels.contains_key("le") {
                return wrong("suffix");
            }
            if !seen.insert((line[..at].to_owned(), labels.clone())) {
                return wrong("the same series twice");
            }
            family.samples.push((line[..at].to_owned(), labels, value));
        }
    }
    for (name, family) in &families {
        if family.samples.is_empty() {
            return Err(format!("{name} has no series"));
        }
        if family.kind == "histogram" {
            histograms(name, family)?;
        }
    }
    Ok(families)
}

/// Buckets rise in `le` and in count, and the last is the count.
fn histograms(name: &str, family: &Family) -> Result<(), String> {
    let mut open: Option<(BTreeMap<String, String>, f64, f64)> = None;
    for (full, labels, value) in &family.samples {
        let mut own = labels.clone();
        if let Some(le) = own.remove("le") {
            let le = le.parse::<f64>().map_err(|_| format!("{name}: le {le:?}"))?;
            if let Some((of, last, count)) = &open
                && (*of != own || *last >= le || *count > *value)
            {
                return Err(format!("{full}{labels:?} falls"));
            }
            open = Some((own, le, *value));
        } else if full.ends_with("_count") {
            let complete = open
                .take()
                .is_some_and(|(of, le, count)| of == own && le == f64::INFINITY && count == *value);
            if !complete {
                return Err(format!("{full}{labels:?}: +Inf is not the count"));
            }
        }
    }
    open.map_or(Ok(()), |open| Err(format!("{name}: {open:?} has no count")))
}
