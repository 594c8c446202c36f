//! A service whose requests are tasks of a pool.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use super::{ServiceError, ServiceFuture, take_ready};
use crate::budget::Budget;
use crate::on_tokio::AsyncPool;

/// Runs each request of a service as a task of an [`AsyncPool`].
///
/// What the pool says of tasks holds of requests: as many are under way as there are workers,
/// as many wait as there are places, and beyond that [`WhenFull`](crate::WhenFull) decides. With
/// `Reject` a request is shed at once, with `Wait` and `WaitFor` its answer takes longer, with
/// the others one is evicted, or runs in its caller. A request that is refused never reaches
/// the service. Why there is no answer is a [`ServiceError`].
///
/// Dropping the future of an answer cancels its task, wherever that is: a client that hangs up
/// makes room. The service's own `poll_ready` is driven before each call; a place in the queue
/// is not part of being ready. A caller may hold a ready service for as long as it likes and
/// never call it, and the place would be lost to all others meanwhile; and what a full pool does
/// (evict, run in the caller, refuse) it can only do with the request at hand. So it is the
/// future of the answer that waits.
///
/// The task ends with the answer. A body that is streamed after that is not part of it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// use tidegate::{AsyncPool, PoolLayer, ServiceError, Shutdown, WhenFull};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let pool = AsyncPool::builder("requests")
///     .workers(100)
///     .queue(1_000)
///     .when_full(WhenFull::Reject)
///     .build_async()?;
/// let pooled = PoolLayer::new(pool.clone()).name("request").timeout(Duration::from_secs(5));
/// let service = ServiceBuilder::new().layer(pooled).service(service_fn(|name: &'static str| {
///     async move { Ok::<_, Infallible>(format!("{name}, answered by a task of the pool")) }
/// }));
/// let answer = match service.oneshot("you").await {
///     Ok(text) => (200, text),
///     Err(error @ ServiceError::Refused { .. }) => (503, error.to_string()),
///     Err(error) => (500, error.to_string()),
/// };
/// assert_eq!(answer.0, 200);
/// pool.shutdown(Shutdown::default()).await?;
/// # Ok(())
/// # }
/// ```
///
/// With axum, put it behind a `HandleErrorLayer`: `examples/http-service` in the repository.
///
/// Price: that of a task, an allocation for the future of the answer, and a clone of the
/// service.
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put around a service"]
pub struct PoolLayer {
    pool: AsyncPool,
    name: &'static str,
    timeout: Option<Duration>,
    total_timeout: Option<Duration>,
    budgets: Vec<(Budget, u64)>,
}

impl PoolLayer {
    /// Requests become tasks of `pool`, under the limits that the pool has.
    pub fn new(pool: AsyncPool) -> PoolLayer {
        PoolLayer { pool, name: "", timeout: None, total_timeout: None, budgets: Vec::new() }
    }

    /// What its tasks are called in reports and metrics.
    pub fn name(mut self, name: &'static str) -> PoolLayer {
        self.name = name;
        self
    }

    /// How long a request may run, in place of the pool's `task_timeout`. Then it is dropped at
    /// its next await: [`ServiceError::TimedOut`].
    pub fn timeout(mut self, limit: Duration) -> PoolLayer {
        self.timeout = Some(limit);
        self
    }

    /// How long a request may take from its acceptance to its end, in the queue and running.
    /// (A wait for room comes before that: `WhenFull::WaitFor` bounds it.)
    pub fn total_timeout(mut self, limit: Duration) -> PoolLayer {
        self.total_timeout = Some(limit);
        self
    }

    /// Each request takes `weight` of `budget` before it takes a place, and holds it until the
    /// service's code is gone; see [`AsyncTask::budget`](crate::AsyncTask::budget). May be
    /// called for several budgets.
    pub fn budget(mut self, budget: &Budget, weight: u64) -> PoolLayer {
        self.budgets.push((budget.clone(), weight));
        self
    }
}

impl<S> Layer<S> for PoolLayer {
    type Service = PoolService<S>;

    fn layer(&self, service: S) -> PoolService<S> {
        PoolService { service, layer: Arc::new(self.clone()) }
    }
}

/// A service whose requests are tasks of a pool; made by [`PoolLayer`].
#[derive(Clone)]
pub struct PoolService<S> {
    service: S,
    layer: Arc<PoolLayer>,
}

impl<S, R> Service<R> for PoolService<S>
where
    R: Send + 'static,
    S: Service<R> + Clone + Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = ServiceError<S::Error>;
    type Future = ServiceFuture<S::Response, S::Error>;

    /// Whether the service is ready, whatever the pool: see [`PoolLayer`].
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx).map_err(ServiceError::Service)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (mut ready, layer) = (take_ready(&mut self.service), Arc::clone(&self.layer));
        ServiceFuture::new(async move {
            let mut task = layer.pool.task(layer.name);
            if let Some(limit) = layer.timeout {
                task = task.timeout(limit);
            }
            if let Some(limit) = layer.total_timeout {
                task = task.total_timeout(limit);
            }
            for (budget, weight) in &layer.budgets {
                task = task.budget(budget, *weight);
            }
            // Called by the task: the service does not see what the pool refuses.
            match task.submit_result(move |_| ready.call(request)).await {
                Ok(handle) => handle.cancel_on_drop().await.map_err(ServiceError::from),
                Err(refused) => {
                    let by = format!("pool {:?}", layer.pool.name());
                    Err(ServiceError::Refused { reason: refused.reason(), by })
                }
            }
        })
    }
}

impl fmt::Debug for PoolLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolLayer")
            .field("pool", &self.pool.name())
            .field("name", &self.name)
            .field("timeout", &self.timeout)
            .field("total_timeout", &self.total_timeout)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for PoolService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolService").field("layer", &self.layer).finish_non_exhaustive()
    }
}
