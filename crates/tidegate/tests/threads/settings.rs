//! C1: builder, files and environment give the same values through the same checks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::{
    BuildError, Builder, Inside, Pool, SettingError, Settings, Shutdown, WhenFull, Workers,
};

const POOL: &str = "image-resize";
const PREFIX: &str = "TIDEGATE_IMAGE_RESIZE_";

type Pools = Result<BTreeMap<String, Settings>, SettingError>;

/// From keys and texts to the settings of `POOL`.
type Way = fn(&[(&str, &str)]) -> Pools;

/// Each way in that this build has. They differ in how they spell a key, if at all.
const WAYS: &[(&str, Way)] = &[
    ("environment", from_env),
    #[cfg(feature = "serde")]
    ("serde", from_serde),
    #[cfg(feature = "toml")]
    ("TOML, as text", |pairs| Settings::pools_from_toml(&toml_of(pairs, false))),
    #[cfg(feature = "toml")]
    ("TOML, native", |pairs| Settings::pools_from_toml(&toml_of(pairs, true))),
    #[cfg(feature = "json")]
    ("JSON, as text", |pairs| Settings::pools_from_json(&json_of(pairs, false))),
    #[cfg(feature = "json")]
    ("JSON, native", |pairs| Settings::pools_from_json(&json_of(pairs, true))),
];

fn from_env(pairs: &[(&str, &str)]) -> Pools {
    let variable = |key: &str| format!("{PREFIX}{}", key.to_uppercase());
    Settings::from_vars(&[POOL], pairs.iter().map(|(key, value)| (variable(key), value)))
}

/// The name of the pool is not for serde to know.
#[cfg(feature = "serde")]
fn from_serde(pairs: &[(&str, &str)]) -> Pools {
    use serde::Deserialize;
    use serde::de::value::{Error, MapDeserializer};
    let read = Settings::deserialize(MapDeserializer::<_, Error>::new(pairs.iter().copied()));
    match read {
        Ok(settings) => Ok(BTreeMap::from([(POOL.to_owned(), settings)])),
        Err(error) => {
            let mut one_by_one = Settings::default();
            let twin = pairs.iter().try_for_each(|(key, value)| one_by_one.set(key, value));
            let twin = twin.expect_err("serde refuses what `set` refuses");
            assert_eq!(error.to_string(), twin.to_string());
            from_env(pairs)
        }
    }
}

/// Without quotes where the format allows it.
#[cfg(any(feature = "toml", feature = "json"))]
fn native(value: &str) -> String {
    let number = value.parse::<i64>().is_ok() && !value.starts_with('+');
    if number || value == "true" || value == "false" { value.into() } else { format!("{value:?}") }
}

#[cfg(feature = "toml")]
fn toml_of(pairs: &[(&str, &str)], bare: bool) -> String {
    let mut text = format!("[pool.{POOL}]\n");
    for (key, value) in pairs {
        let value = if bare { native(value) } else { format!("{value:?}") };
        text += &format!("{key} = {value}\n");
    }
    text
}

#[cfg(feature = "json")]
fn json_of(pairs: &[(&str, &str)], bare: bool) -> String {
    let value = |value: &str| if bare { native(value) } else { format!("{value:?}") };
    let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k:?}: {}", value(v))).collect();
    format!("{{ \"pool\": {{ {POOL:?}: {{ {} }} }} }}", pairs.join(", "))
}

/// Numbers and flags as they are, texts in quotes.
fn shown(value: &str) -> String {
    let bare = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
    if bare { value.to_owned() } else { format!("{value:?}") }
}

/// The complaint, with the variable spelled as the key.
fn complaint(error: &SettingError, key: &str) -> String {
    error.to_string().replace(&format!("{PREFIX}{}", key.to_uppercase()), key)
}

fn build_error(builder: Builder) -> SettingError {
    match builder.build().expect_err("it is refused") {
        BuildError::Setting(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn c1_bad_values_give_the_same_complaint_every_way() {
    let durations = ["", "5", "-1", "1.5s", "5 s", "5sec", "soon", "1s1m", "none"];
    let counts = ["", "-1", "1.5", "1e3", "lots", "1_", "99999999999999999999999", "[]", "true"];
    let bad: &[(&str, &[&str])] = &[
        ("workers", &["0", "65521", "4..=2", "0..=0", "2..4", "auto", "-1", "2.0", ""]),
        ("grow_after", &durations),
        ("shrink_after", &durations),
        ("resize_cooldown", &durations),
        ("queue", &counts),
        ("queue", &["4294967296"]),
        ("when_full", &["", "block", "Wait", "wait-for", "wait-for 5", "wait 5s", "0", "true"]),
        ("when_full_inside", &["", "wait", "run_inline"]),
        ("callers_may_help", &["", "yes", "1", "True"]),
        ("task_timeout", &["", "5", "never", "off", "-1"]),
        ("grace", &durations),
        ("max_abandoned", &counts),
        ("max_abandoned", &["65521"]),
        ("stack_size", &counts),
        ("stack_size", &["0", "1", "65535", "2MB", "1099511627777"]),
        ("restart_backoff", &["", "5s", "5s..=1s", "1..=5", "10ms..5s"]),
        ("on_parent_cancel", &["", "Hard", "hard within", "light within 30", "30s", "none"]),
    ];
    for (key, values) in bad {
        for value in *values {
            let expected = from_env(&[(key, value)]).expect_err(value);
            let text = complaint(&expected, key);
            let start = format!("pool {POOL:?}: {key} is {}; expected ", shown(value));
            assert!(text.starts_with(&start), "{text}");
            assert_eq!(expected.pool(), Some(POOL));
            assert_eq!(expected.value(), Some(*value));
            assert!(expected.expected().is_some_and(|range| text.ends_with(range)), "{text}");
            for (way, read) in WAYS {
                let error = read(&[(key, value)]).expect_err(value);
                assert_eq!(complaint(&error, key), text, "{way}");
            }
        }
    }
}

#[test]
fn c1_the_builder_refuses_with_the_same_words() {
    let (s, pool) = (Duration::from_secs, || Pool::builder(POOL));
    for (key, value, builder) in [
        ("workers", "0", pool().workers(0)),
        ("workers", "65521", pool().workers(65_521)),
        ("workers", "4..=2", pool().workers(Workers::from(std::ops::RangeInclusive::new(4, 2)))),
        ("workers", "0..=65521", pool().workers(0..=65_521)),
        #[cfg(target_pointer_width = "64")]
        ("queue", "4294967296", pool().queue(1 << 32)),
        #[cfg(target_pointer_width = "64")]
        ("max_abandoned", "18446744073709551615", pool().max_abandoned(usize::MAX)),
        ("stack_size", "0", pool().stack_size(0)),
        ("stack_size", "65535", pool().stack_size(65_535)),
        ("restart_backoff", "5s..=1s", pool().restart_backoff(s(5)..=s(1))),
    ] {
        let error = build_error(builder);
        let same = from_env(&[(key, value)]).expect_err(value);
        assert_eq!(error.to_string(), complaint(&same, key));
    }
}

#[test]
fn c1_the_complaint_names_pool_key_value_and_range() {
    let error = from_env(&[("workers", "0")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool \"image-resize\": TIDEGATE_IMAGE_RESIZE_WORKERS is 0; \
         expected 1 to 65520, or a range MIN..=MAX from 0..=1 up to that"
    );
    let error = from_env(&[("grace", "5")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool \"image-resize\": TIDEGATE_IMAGE_RESIZE_GRACE is 5; \
         expected a duration with its unit, such as 250ms, 5s, 1m30s or 2h"
    );
}

#[test]
fn c1_settings_that_exclude_each_other_are_refused_at_the_build() {
    let mut settings = Settings::default();
    settings.set("queue", "0").unwrap();
    settings.set("when_full", "drop-oldest").unwrap();
    let error = build_error(Pool::builder(POOL).settings(&settings));
    assert_eq!(
        error.to_string(),
        "pool \"image-resize\": when_full is \"drop-oldest\"; \
         expected another policy: a queue of 0 has no oldest task to drop"
    );
    for (key, value) in [
        ("when_full", "caller-runs"),
        ("when_full_inside", "run-inline"),
        ("callers_may_help", "true"),
    ] {
        let mut settings = Settings::default();
        settings.set(key, value).unwrap();
        let error = Pool::builder(POOL).settings(&settings).worker_state(|_| ()).build();
        let text = error.expect_err(key).to_string();
        assert!(
            text.contains(&format!("{key} is {}; expected another value", shown(value))),
            "{text}"
        );
    }
    assert_eq!(build_error(Pool::builder("")).key(), Some("name"));
}

#[test]
fn c1_unknown_keys_are_errors_with_the_nearest_one() {
    let error = from_env(&[("worker", "8")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool \"image-resize\": TIDEGATE_IMAGE_RESIZE_WORKER is no setting; \
         did you mean TIDEGATE_IMAGE_RESIZE_WORKERS? docs/settings.md lists them"
    );
    assert_eq!(error.key(), Some("TIDEGATE_IMAGE_RESIZE_WORKER"));
    for (way, read) in WAYS {
        let error = read(&[("queue", "5"), ("colour", "red")]).expect_err(way);
        let text = error.to_string().to_lowercase();
        assert!(text.contains("colour is no setting; docs/"), "{way}: {text}");
        let text = read(&[("when-full", "wait")]).expect_err(way).to_string().to_lowercase();
        assert!(text.contains("when_full?"), "{way}: {text}");
    }
    // Variables are in capitals; what is not is a typing error as well.
    let vars = [("TIDEGATE_IMAGE_RESIZE_workers", "8")];
    let text = Settings::from_vars(&[POOL], vars).unwrap_err().to_string();
    assert!(text.contains("_workers is no setting; did you mean TIDEGATE_IMAGE_RESIZE_WORKERS?"));
}

#[test]
fn c1_a_setting_comes_once() {
    let twice = [("queue", "5"), ("queue", "6")];
    let text = from_env(&twice).unwrap_err().to_string();
    assert_eq!(text, "pool \"image-resize\": TIDEGATE_IMAGE_RESIZE_QUEUE is set twice; keep one");
    #[cfg(feature = "json")]
    {
        let text = Settings::pools_from_json(&json_of(&twice, true)).unwrap_err().to_string();
        assert_eq!(text, "pool \"image-resize\": queue is set twice; keep one");
        let pools = r#"{ "pool": { "a": {}, "b": {}, "a": {} } }"#;
        let text = Settings::pools_from_json(pools).unwrap_err().to_string();
        assert_eq!(text, "pool.a is set twice; keep one");
        let pools = r#"{ "pool": { "a": {} }, "pool": { "b": {} } }"#;
        let text = Settings::pools_from_json(pools).unwrap_err().to_string();
        assert_eq!(text, "pool is set twice; keep one");
    }
    #[cfg(feature = "toml")]
    for (text, key, line) in [
        (toml_of(&twice, true).as_str(), "queue", 3),
        ("[pool.a]\nqueue = 5\n'queue' = 6", "queue", 3),
        ("pool.a.queue = 5\npool.a.queue = 6", "pool.a.queue", 2),
        ("[pool]\na = { queue = 5, \"queue\" = 6 }", "queue", 2),
        ("[pool.a]\nqueue = 5\n[pool.b]\n[pool.a]\nworkers = 1", "pool.a", 4),
        ("[pool.\"ä, b\"]\n[pool.\"ä, b\"]", "pool.ä, b", 2),
    ] {
        let error = Settings::pools_from_toml(text).unwrap_err();
        assert_eq!(error.key(), Some(key), "{error}");
        let expected = format!("{key} is set twice, again in line {line}; keep one");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn c1_two_names_that_become_one_are_an_error() {
    let none: [(&str, &str); 0] = [];
    for names in [["image-resize", "image.resize"], ["größe", "gr__e"], ["a", "A"], ["a", "a"]] {
        let text = Settings::from_vars(&names, none).unwrap_err().to_string();
        assert!(text.contains(&format!("{:?} and {:?}", names[0], names[1])), "{text}");
    }
    let text = Settings::from_vars(&["image-resize", "image.resize"], none).unwrap_err();
    assert_eq!(
        text.to_string(),
        "pools \"image-resize\" and \"image.resize\" would share the variables \
         TIDEGATE_IMAGE_RESIZE_…; rename one of them"
    );
}

#[test]
fn c1_each_variable_belongs_to_one_pool() {
    let vars = [
        ("TIDEGATE_IMAGE_WORKERS", "1"),
        ("TIDEGATE_IMAGE_RESIZE_WORKERS", "2"),
        // Of `image`, although it begins like one of `image-resize`.
        ("TIDEGATE_IMAGE_RESIZE_COOLDOWN", "3s"),
        ("TIDEGATE_OTHER_NONSENSE", "not ours"),
        ("PATH", "/bin"),
    ];
    for names in [["image", POOL, "idle"], [POOL, "idle", "image"]] {
        let pools = Settings::from_vars(&names, vars).unwrap();
        assert_eq!(pools.len(), 3);
        assert_eq!(pools["image"].workers, Some(1.into()));
        assert_eq!(pools["image"].resize_cooldown, Some(Duration::from_secs(3)));
        assert_eq!(pools[POOL].workers, Some(2.into()));
        assert_eq!(pools[POOL].resize_cooldown, None);
        assert_eq!(pools["idle"], Settings::default());
        // Unknown to both, it is the complaint of the longer name.
        let bad = [("TIDEGATE_IMAGE_RESIZE_COLOUR", "red")];
        assert_eq!(Settings::from_vars(&names, bad).unwrap_err().pool(), Some(POOL));
    }
    // Alone, `image` can't know.
    assert!(Settings::from_vars(&["image"], vars).is_err());
}

#[cfg(unix)]
#[test]
fn c1_a_variable_that_is_no_text_is_an_error() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (name, bytes) = (OsStr::new("TIDEGATE_IMAGE_RESIZE_QUEUE"), OsStr::from_bytes(b"8\xff"));
    let text = Settings::from_vars(&[POOL], [(name, bytes)]).unwrap_err().to_string();
    assert!(text.ends_with("_QUEUE is \"8\u{fffd}\"; expected text in UTF-8"), "{text}");
    let name = OsStr::from_bytes(b"TIDEGATE_IMAGE_RESIZE_QU\xffUE");
    assert!(Settings::from_vars(&[POOL], [(name, bytes)]).is_err());
    // Those of others are not our business.
    assert!(Settings::from_vars(&[POOL], [(OsStr::from_bytes(b"X\xff"), bytes)]).is_ok());
}

/// The environment of this process can't be changed safely, that of a child can.
#[test]
fn c1_the_builder_reads_the_environment_of_the_process() {
    const NAME: &str = "c1.child";
    if std::env::var_os("TIDEGATE_C1_CHILD_QUEUE").is_some() {
        let effective = Pool::builder(NAME).queue(1).grace(Duration::ZERO).env().unwrap();
        assert_eq!(effective.effective().queue, Some(7));
        assert_eq!(effective.effective().grace, Some(Duration::ZERO));
        assert_eq!(effective.queue(9).effective().queue, Some(9));
        let error = Pool::builder("c1").env().expect_err("CHILD_QUEUE is no setting of it");
        assert_eq!(error.key(), Some("TIDEGATE_C1_CHILD_QUEUE"));
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "settings::c1_the_builder_reads_the_environment_of_the_process"])
        .env("TIDEGATE_C1_CHILD_QUEUE", "7")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn c1_later_settings_override_and_the_unset_stay() {
    let mut file = Settings::default();
    for (key, value) in [("workers", "1"), ("queue", "1"), ("grace", "1s"), ("task_timeout", "1s")]
    {
        file.set(key, value).unwrap();
    }
    let env = from_env(&[("workers", "2"), ("queue", "2"), ("task_timeout", "none")]).unwrap();
    let builder = Pool::builder(POOL).grace(Duration::ZERO).settings(&file).settings(&env[POOL]);
    let effective = builder.queue(3).effective();
    assert_eq!(effective.workers, Some(2.into()), "environment over file");
    assert_eq!(effective.queue, Some(3), "the call that came last over both");
    assert_eq!(effective.grace, Some(Duration::from_secs(1)), "file over the call before it");
    assert_eq!(effective.task_timeout, Some(Duration::MAX), "a limit can be taken away");
    assert_eq!(effective.max_abandoned, Some(2), "as many as workers, whoever set those");
    assert_eq!(effective.resize_cooldown, Some(Duration::from_secs(1)), "default");
}

#[test]
fn c1_settings_reach_the_pool() {
    let settings = from_env(&[("workers", "2"), ("queue", "1_0"), ("when_full", "reject")]);
    let pool = Pool::builder(POOL).settings(&settings.unwrap()[POOL]).build().unwrap();
    let snapshot = pool.snapshot();
    assert_eq!(pool.roster().len(), 2, "{snapshot}");
    pool.pause();
    let taken = (0..20).take_while(|_| pool.spawn(|| ()).is_ok()).count();
    assert_eq!(taken, 10, "the queue has ten places and rejects");
    pool.shutdown(Shutdown::hard()).unwrap();
}

// ---------------------------------------------------------------- round trips

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..100_000u64).prop_map(Duration::from_millis),
        (any::<u64>(), 0..1_000_000_000u32).prop_map(|(s, n)| Duration::new(s, n)),
    ]
}

fn shutdown() -> impl Strategy<Value = Shutdown> {
    let mode = prop::sample::select(vec![Shutdown::light(), Shutdown::soft(), Shutdown::hard()]);
    (mode, duration(), duration()).prop_map(|(mode, limit, grace)| mode.within(limit).grace(grace))
}

fn when_full() -> impl Strategy<Value = WhenFull> {
    prop_oneof![
        Just(WhenFull::Wait),
        duration().prop_map(WhenFull::WaitFor),
        Just(WhenFull::Reject),
        Just(WhenFull::DropNewest),
        Just(WhenFull::DropOldest),
        Just(WhenFull::CallerRuns),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    use prop::option::of;
    let workers = (0..=65_520usize, 1..=65_520usize);
    let workers = workers.prop_map(|(a, b)| Workers::from(a.min(b)..=a.max(b)));
    let inside = prop_oneof![Just(Inside::Refuse), Just(Inside::RunInline)];
    let backoff = (duration(), duration()).prop_map(|(a, b)| a.min(b)..=a.max(b));
    let sizing = (of(workers), of(duration()), of(duration()), of(duration()));
    let full = (of(0..=u32::MAX as usize), of(when_full()), of(inside), of(any::<bool>()));
    let ends = (of(duration()), of(duration()), of(0..=65_520usize), of(65_536..=1usize << 30));
    let all = (sizing, full, ends, of(backoff), of(shutdown()));
    all.prop_map(|(sizing, full, ends, restart_backoff, on_parent_cancel)| {
        let mut s = Settings::default();
        (s.workers, s.grow_after, s.shrink_after, s.resize_cooldown) = sizing;
        (s.queue, s.when_full, s.when_full_inside, s.callers_may_help) = full;
        (s.task_timeout, s.grace, s.max_abandoned, s.stack_size) = ends;
        (s.restart_backoff, s.on_parent_cancel) = (restart_backoff, on_parent_cancel);
        s
    })
}

proptest! {
    #[test]
    fn c1_valid_settings_survive_every_way(settings in settings()) {
        let all = Pool::builder(POOL).settings(&settings).effective();
        for settings in [&settings, &all] {
            let texts: Vec<_> = settings.entries().collect();
            let pairs: Vec<_> = texts.iter().map(|(key, text)| (*key, text.as_str())).collect();
            for (way, read) in WAYS {
                prop_assert_eq!(&read(&pairs).unwrap()[POOL], settings, "{}", way);
            }
            #[cfg(feature = "toml")]
            prop_assert_eq!(&Settings::from_toml(&settings.to_string()).unwrap(), settings);
            #[cfg(feature = "json")]
            {
                let json = serde_json::to_string(settings).unwrap();
                prop_assert_eq!(&Settings::from_json(&json).unwrap(), settings);
            }
        }
        prop_assert_eq!(Pool::builder(POOL).settings(&all).effective(), all);
    }

    #[test]
    fn c1_any_text_is_a_value_or_a_complaint(row in 0..14usize, text in ".{0,20}") {
        let all = Pool::builder(POOL).stack_size(1).effective();
        let key = all.entries().nth(row).unwrap().0;
        let mut settings = Settings::default();
        match settings.set(key, &text) {
            Ok(()) => prop_assert_eq!(settings.entries().count(), 1),
            Err(error) => prop_assert_eq!(error.value(), Some(text.as_str())),
        }
    }
}

// ---------------------------------------------------------------- files

#[cfg(feature = "toml")]
#[test]
fn c1_a_file_has_pools_and_nothing_else() {
    let error = |text: &str| Settings::pools_from_toml(text).unwrap_err().to_string();
    assert_eq!(
        error("[server]\nport = 80"),
        "server is no setting; did you mean pool? docs/settings.md lists them"
    );
    assert_eq!(
        error("workers = 8"),
        "workers is no setting; did you mean pool.NAME.workers? docs/settings.md lists them"
    );
    assert_eq!(
        error("pool = 8"),
        "pool is 8; expected pools by their names, each with its settings"
    );
    assert_eq!(
        error("[pool]\nworkers = 8"),
        "pool \"workers\": settings is 8; expected keys and values"
    );
    assert!(error("[pool.a\n").starts_with("the settings could not be read as TOML: "));
    assert_eq!(Settings::pools_from_toml("").unwrap(), BTreeMap::new());
}

#[cfg(feature = "toml")]
#[test]
fn c1_wrong_types_are_refused() {
    let shown = |value: &str| {
        let error = Settings::from_toml(&format!("queue = {value}")).unwrap_err();
        error.value().expect("the value is what is wrong").to_owned()
    };
    assert_eq!(shown("[1, 2]"), "[…]");
    assert_eq!(shown("{ size = 8 }"), "{…}");
    assert_eq!(shown("8.0"), "8.0");
    assert_eq!(shown("nan"), "NaN");
    assert_eq!(shown("-9223372036854775808"), "-9223372036854775808");
    assert_eq!(shown("1979-05-27"), "{…}");
}

#[cfg(feature = "json")]
#[test]
fn c1_json_has_the_same_types() {
    let shown = |value: &str| {
        let error = Settings::from_json(&format!("{{ \"queue\": {value} }}")).unwrap_err();
        error.value().expect("the value is what is wrong").to_owned()
    };
    for (json, value) in
        [("null", "null"), ("[8]", "[…]"), ("{}", "{…}"), ("8.0", "8.0"), ("1e400000", "")]
    {
        match value {
            "" => assert!(Settings::from_json(&format!("{{ \"queue\": {json} }}")).is_err()),
            _ => assert_eq!(shown(json), value),
        }
    }
    assert_eq!(shown("18446744073709551615"), "18446744073709551615");
    let text = Settings::from_json("8").unwrap_err().to_string();
    assert_eq!(text, "settings is 8; expected keys and values");
    let text = Settings::from_json("{").unwrap_err().to_string();
    assert!(text.starts_with("the settings could not be read as JSON: EOF"), "{text}");
    // A crate elsewhere may have switched this on.
    let precise = r#"{ "queue": { "$serde_json::private::Number": "8" } }"#;
    assert_eq!(Settings::from_json(precise).unwrap().queue, Some(8));
}

/// As part of a larger document.
#[cfg(feature = "json")]
#[test]
fn c1_settings_may_be_part_of_another_document() {
    let text = r#"{ "a": { "queue": 5 }, "b": { "grace": "5s" } }"#;
    let pools: BTreeMap<String, Settings> = serde_json::from_str(text).unwrap();
    assert_eq!(pools["a"].queue, Some(5));
    let error = serde_json::from_str::<Vec<Settings>>(r#"[{ "queue": -1 }]"#).unwrap_err();
    assert!(error.to_string().starts_with("queue is -1; expected 0 to 4294967295"));
}

// ---------------------------------------------------------------- the document

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");

fn document() -> String {
    fs::read_to_string(Path::new(DOCUMENT)).expect("docs/settings.md")
}

/// `TIDEGATE_BLESS=1` writes it anew.
#[test]
fn c1_the_reference_table_is_that_of_the_code() {
    let text = document();
    let start = text.find("| key |").expect("the table");
    let end = start + text[start..].find("\n\n").expect("its end") + 1;
    let right = format!("{}{}{}", &text[..start], Settings::reference(), &text[end..]);
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        fs::write(DOCUMENT, right).unwrap();
    } else {
        assert!(text == right, "docs/settings.md: run this test with TIDEGATE_BLESS=1");
    }
}

#[test]
fn c1_the_documented_defaults_are_the_real_ones() {
    let effective = Pool::builder(POOL).effective();
    let real: BTreeMap<&str, String> = effective.entries().collect();
    let reference = Settings::reference();
    let rows: Vec<Vec<&str>> =
        reference.lines().skip(2).map(|l| l.split(" | ").collect()).collect();
    assert_eq!(rows.len(), 14);
    for row in &rows {
        let (key, default) = (row[0].trim_start_matches("| ").trim_matches('`'), row[2]);
        match default {
            "the machine's parallelism" => {
                let machine = std::thread::available_parallelism().unwrap().to_string();
                assert_eq!(real[key], machine);
            }
            "as many as workers" => assert_eq!(real[key], real["workers"]),
            "the platform's" => assert!(!real.contains_key(key), "{key}"),
            _ => assert_eq!(real[key], default, "{key}"),
        }
    }
}

/// Code blocks of the document in that language.
fn blocks(language: &str) -> Vec<String> {
    let (text, fence) = (document(), format!("```{language}\n"));
    let blocks = text.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn c1_the_examples_of_the_document_are_right() {
    let names = ["image", "image-resize"];
    let shell = blocks("sh").concat();
    let variable = |line: &'_ str| {
        let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    let vars = shell.lines().filter_map(variable);
    let env = Settings::from_vars(&names, vars).unwrap();
    assert!(names.iter().all(|name| env[*name] != Settings::default()), "{env:?}");
    #[cfg(feature = "toml")]
    for block in blocks("toml") {
        let pools = Settings::pools_from_toml(&block).unwrap();
        assert!(names.iter().all(|name| pools[*name] != Settings::default()), "{pools:?}");
    }
    #[cfg(feature = "json")]
    for block in blocks("json") {
        let pools = Settings::pools_from_json(&block).unwrap();
        assert!(names.iter().all(|name| pools[*name] != Settings::default()), "{pools:?}");
    }
    assert!(!blocks("toml").is_empty() && !blocks("json").is_empty(), "examples are missing");
}

#[cfg(feature = "toml")]
#[test]
fn c1_a_number_beyond_all_bounds_is_named_with_its_range() {
    let error = Settings::from_toml("queue = 99999999999999999999").unwrap_err().to_string();
    assert!(error.contains("queue") && error.contains("99999999999999999999"), "{error}");
    assert!(error.contains("0 to 4294967295") && error.lines().count() == 1, "{error}");
}
