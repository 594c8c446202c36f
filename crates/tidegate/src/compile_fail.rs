//! What must not compile (hazard 76), as doctests.
//!
//! A closure that is not `Send` stays on its thread:
//! ```compile_fail,E0277
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let local = std::rc::Rc::new(1);
//! let _ = pool.spawn(move || drop(local));
//! ```
//! So does a result that is not `Send`:
//! ```compile_fail,E0277
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let _ = pool.submit(|| std::rc::Rc::new(1));
//! ```
//! And an error that is not `Send`:
//! ```compile_fail,E0277
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let _ = pool.submit_result(|| Err::<(), _>(std::rc::Rc::new(1)));
//! ```
//! A task may not borrow from the stack (one of a scope may):
//! ```compile_fail,E0597
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let local = String::new();
//! let borrowed = &local;
//! let _ = pool.submit(move || borrowed.len());
//! ```
//! The context does not leave its task:
//! ```compile_fail
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let _ = pool.task("t").submit(|cx| cx);
//! ```
//! The worker's state does not leave its task:
//! ```compile_fail
//! let pool = tidegate::Pool::builder("p").worker_state(|_| String::new()).build().unwrap();
//! let _ = pool.submit_with(|state, _| state.as_str());
//! ```
//! A task for another kind of state is refused by the compiler:
//! ```compile_fail,E0631
//! let pool = tidegate::Pool::builder("p").worker_state(|_| String::new()).build().unwrap();
//! let _ = pool.submit_with(|state: &mut u64, _: &tidegate::Cx| *state);
//! ```
//! A handle of a value that is not `Send` can't be made, and one of a `Send` value that is
//! not `Sync` is both:
//! ```
//! fn both<X: Send + Sync>(_: &X) {}
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let handle = pool.submit(|| std::cell::Cell::new(1)).unwrap();
//! both(&handle);
//! assert_eq!(handle.wait().unwrap().get(), 1);
//! pool.shutdown(tidegate::Shutdown::default()).unwrap();
//! ```
//! What a scoped task borrows must outlive the scope:
//! ```compile_fail,E0597
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! pool.scope(|s| {
//!     let local = String::new();
//!     s.spawn(|| drop(local.len())).unwrap();
//! });
//! ```
//! A handle does not leave its scope:
//! ```compile_fail
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let handle = pool.scope(|s| s.submit(|| 1).unwrap());
//! ```
//! Nor does the scope itself:
//! ```compile_fail
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let mut kept = None;
//! pool.scope(|s| kept = Some(s));
//! ```
//! Two tasks can't borrow the same thing mutably:
//! ```compile_fail,E0499
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let mut count = 0;
//! pool.scope(|s| {
//!     s.spawn(|| count += 1).unwrap();
//!     s.spawn(|| count += 1).unwrap();
//! });
//! ```
//! What a task borrows can't be used beside it:
//! ```compile_fail
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let mut text = String::new();
//! pool.scope(|s| {
//!     s.spawn(|| text.push('a')).unwrap();
//!     text.clear();
//! });
//! ```
//! A map does not leave its scope, nor does what it borrows end before:
//! ```compile_fail
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let map = pool.scope(|s| s.map(0..3, |n| n));
//! ```
//! ```compile_fail,E0597
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! pool.scope(|s| {
//!     let local = String::new();
//!     let _ = s.map(0..3, |n| n + local.len()).count();
//! });
//! ```
//! The function of a plain map may not borrow:
//! ```compile_fail,E0597
//! let pool = tidegate::Pool::builder("p").build().unwrap();
//! let local = String::new();
//! let borrowed = &local;
//! let _ = pool.map(0..3, move |n| n + borrowed.len()).count();
//! ```
