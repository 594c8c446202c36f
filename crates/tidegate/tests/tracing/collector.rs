//! A subscriber that keeps what it is told, and does what a test asks for: panic, block, or
//! call the pool. (`tracing-subscriber` would have to be taught all of that, and more.)

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

pub(crate) type Fields = BTreeMap<&'static str, String>;

#[derive(Clone, Debug)]
pub(crate) struct SpanSeen {
    pub(crate) name: &'static str,
    pub(crate) fields: Fields,
    pub(crate) parent: Option<u64>,
    /// The names of the threads that entered it.
    pub(crate) entered_on: Vec<String>,
    pub(crate) inside: i32,
    pub(crate) closed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct EventSeen {
    pub(crate) level: Level,
    pub(crate) fields: Fields,
    pub(crate) thread: String,
    /// The span that it happened in.
    pub(crate) inside: Option<u64>,
}

impl EventSeen {
    pub(crate) fn message(&self) -> &str {
        &self.fields["message"]
    }
}

type Reaction = Arc<dyn Fn(&EventSeen) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Collector {
    next: AtomicU64,
    spans: Mutex<HashMap<u64, SpanSeen>>,
    events: Mutex<Vec<EventSeen>>,
    /// What it does when it hears of this pool.
    pub(crate) reactions: Mutex<HashMap<String, Reaction>>,
    called_by_supervisor: AtomicBool,
}

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn thread_name() -> String {
    thread::current().name().unwrap_or("").to_owned()
}

struct Reader<'f>(&'f mut Fields);

impl Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Collector {
    fn note_thread(&self) {
        if thread_name().contains("supervisor") {
            self.called_by_supervisor.store(true, SeqCst);
        }
    }

    pub(crate) fn span(&self, id: u64) -> SpanSeen {
        lock(&self.spans)[&id].clone()
    }

    /// Changes a span, then panics if it is of a pool that wants that.
    fn change(&self, id: &Id, how: impl FnOnce(&mut SpanSeen)) {
        self.note_thread();
        let pool = {
            let mut spans = lock(&self.spans);
            let span = spans.get_mut(&id.into_u64()).expect("a span of this subscriber");
            assert!(!span.closed, "{span:?} is used after its end");
            how(span);
            span.fields.get("pool").cloned()
        };
        assert_ne!(pool.as_deref(), Some("panicky"), "as it was told to");
    }
}

impl Subscriber for Collector {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes() // so that `enabled` is asked each time
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.note_thread();
        assert!(!thread_name().starts_with("unable"), "as it was told to");
        ["tidegate", "test"].contains(&metadata.target())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.note_thread();
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        assert_ne!(fields.get("pool").map(String::as_str), Some("panicky-new"), "as told");
        let reaction = fields.get("pool").and_then(|pool| lock(&self.reactions).get(pool).cloned());
        let id = self.next.fetch_add(1, SeqCst) + 1;
        let parent = ENTERED.with_borrow(|entered| entered.last().copied());
        let span = SpanSeen {
            name: attributes.metadata().name(),
            fields: fields.clone(),
            parent,
            entered_on: Vec::new(),
            inside: 0,
            closed: false,
        };
        lock(&self.spans).insert(id, span);
        if let Some(reaction) = reaction {
            fields.insert("message", "new span".to_owned());
            let (level, thread) = (*attributes.metadata().level(), thread_name());
            reaction(&EventSeen { level, fields, thread, inside: parent });
        }
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.change(id, |span| values.record(&mut Reader(&mut span.fields)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note_thread();
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let pool = fields.get("pool").cloned().unwrap_or_default();
        let inside = ENTERED.with_borrow(|entered| entered.last().copied());
        let level = *event.metadata().level();
        let seen = EventSeen { level, fields, thread: thread_name(), inside };
        lock(&self.events).push(seen.clone());
        let reaction = lock(&self.reactions).get(&pool).cloned();
        if let Some(reaction) = reaction {
            reaction(&seen);
        }
        assert!(!pool.starts_with("panicky"), "as it was told to");
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
        self.change(id, |span| {
            span.entered_on.push(thread_name());
            span.inside += 1;
        });
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| assert_eq!(entered.pop(), Some(id.into_u64())));
        self.change(id, |span| span.inside -= 1);
    }

    fn try_close(&self, id: Id) -> bool {
        self.change(&id, |span| span.closed = true);
        true
    }
}

/// What the subscriber has seen of one pool.
pub(crate) struct Seen {
    pub(crate) all: Arc<Collector>,
    pool: &'static str,
}

pub(crate) fn listen(pool: &'static str) -> Seen {
    static ALL: OnceLock<Arc<Collector>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let all = Arc::new(Collector::default());
        tracing::subscriber::set_global_default(Arc::clone(&all)).expect("the first");
        all
    });
    Seen { all: Arc::clone(all), pool }
}

impl Seen {
    pub(crate) fn react(&self, how: impl Fn(&EventSeen) + Send + Sync + 'static) {
        lock(&self.all.reactions).insert(self.pool.to_owned(), Arc::new(how));
    }

    pub(crate) fn events(&self) -> Vec<EventSeen> {
        let events = lock(&self.all.events);
        let ours = |event: &&EventSeen| event.fields.get("pool").is_some_and(|p| p == self.pool);
        events.iter().filter(ours).cloned().collect()
    }

    /// Those whose message begins like this.
    pub(crate) fn events_of(&self, message: &str) -> Vec<EventSeen> {
        let mut events = self.events();
        events.retain(|event| event.message().starts_with(message));
        events
    }

    /// Waits for the one event whose message begins like this.
    pub(crate) fn the(&self, message: &str) -> EventSeen {
        until(message, || !self.events_of(message).is_empty());
        let mut events = self.events_of(message);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) fn spans(&self) -> Vec<SpanSeen> {
        let spans = lock(&self.all.spans);
        let ours = |span: &&SpanSeen| span.fields.get("pool").is_some_and(|p| p == self.pool);
        spans.values().filter(ours).cloned().collect()
    }

    /// The span of the task with this name.
    pub(crate) fn span(&self, task: &str) -> SpanSeen {
        let mut spans = self.spans();
        spans.retain(|span| span.fields["task"] == task);
        assert_eq!(spans.len(), 1, "{task}: {spans:?}");
        spans.remove(0)
    }

    pub(crate) fn outcome(&self, task: &str) -> Option<String> {
        self.span(task).fields.get("outcome").cloned()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let spared = !self.all.called_by_supervisor.load(SeqCst);
        assert!(spared || thread::panicking(), "the supervisor has called a subscriber");
    }
}

/// Waits for a fact; the limit only finds what hangs.
pub(crate) fn until(what: &str, fact: impl Fn() -> bool) {
    let began = Instant::now();
    while !fact() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain for: {what}");
        thread::yield_now();
    }
}
