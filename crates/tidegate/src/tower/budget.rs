//! A service whose requests take a share of a budget.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use super::{ServiceError, ServiceFuture, take_ready};
use crate::budget::{Budget, Permit};
use crate::refused::Reason;

/// Lets each request of a service take its weight of a [`Budget`] first.
///
/// Without a pool: the request runs where its answer is polled, and holds its weight until the
/// service's future is ready or dropped. While the budget has not enough left, the answer waits
/// in line, first come, first served; [`wait_at_most`](BudgetLayer::wait_at_most) bounds that.
/// Nothing is taken while the service is polled for readiness, for the reason that
/// [`PoolLayer`](crate::PoolLayer) gives. Dropping the future of an answer leaves the line, or
/// gives back. A panic of the service goes on in whoever polls the answer.
///
/// For both, a pool and a budget, use [`PoolLayer::budget`](crate::PoolLayer::budget): its task
/// keeps the weight for as long as the code runs, even when nobody waits for the answer any
/// more.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{convert::Infallible, time::Duration};
///
/// use tidegate::{Budget, BudgetLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// // At most 50 a second, and nobody waits longer than 100 ms for that.
/// let rate = Budget::per_second("api", 50);
/// let limited = BudgetLayer::new(rate, 1).wait_at_most(Duration::from_millis(100));
/// let service = ServiceBuilder::new()
///     .layer(limited)
///     .service(service_fn(|n: u32| async move { Ok::<_, Infallible>(2 * n) }));
/// assert_eq!(service.oneshot(21).await?, 42); // an error is worth a 429
/// # Ok(())
/// # }
/// ```
///
/// Price: two short locks, an allocation for the future of the answer, and a clone of the
/// service.
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put around a service"]
pub struct BudgetLayer {
    budget: Budget,
    weight: u64,
    patience: Option<Duration>,
}

impl BudgetLayer {
    /// Each request takes `weight` of `budget`, and waits for it.
    pub fn new(budget: Budget, weight: u64) -> BudgetLayer {
        BudgetLayer { budget, weight, patience: None }
    }

    /// How long a request may wait for its weight: then it is refused with `TimedOut`. With
    /// zero nobody waits: it is shed at once, with `OverBudget`. Needs the runtime's timers.
    pub fn wait_at_most(mut self, limit: Duration) -> BudgetLayer {
        self.patience = Some(limit);
        self
    }

    #[allow(clippy::manual_async_fn, reason = "that it is `Send` is said, not left to be found")]
    fn permit(&self) -> impl Future<Output = Result<Permit, Reason>> + Send {
        async move {
            let taken = match self.patience {
                None => self.budget.acquire_async(self.weight).await,
                Some(Duration::ZERO) => self.budget.try_acquire(self.weight),
                Some(limit) => tokio::time::timeout(limit, self.budget.acquire_async(self.weight))
                    .await
                    .map_err(|_| Reason::TimedOut)?,
            };
            taken.map_err(|error| error.reason())
        }
    }
}

impl<S> Layer<S> for BudgetLayer {
    type Service = BudgetService<S>;

    fn layer(&self, service: S) -> BudgetService<S> {
        BudgetService { service, layer: Arc::new(self.clone()) }
    }
}

/// A service whose requests take a share of a budget; made by [`BudgetLayer`].
#[derive(Clone)]
pub struct BudgetService<S> {
    service: S,
    layer: Arc<BudgetLayer>,
}

impl<S, R> Service<R> for BudgetService<S>
where
    R: Send + 'static,
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = ServiceError<S::Error>;
    type Future = ServiceFuture<S::Response, S::Error>;

    /// Whether the service is ready, whatever the budget: see [`BudgetLayer`].
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx).map_err(ServiceError::Service)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (mut ready, layer) = (take_ready(&mut self.service), Arc::clone(&self.layer));
        ServiceFuture::new(async move {
            // Before the service's future, so dropped after it.
            let _permit = layer.permit().await.map_err(|reason| {
                let by = format!("budget {:?}", layer.budget.name());
                ServiceError::Refused { reason, by }
            })?;
            ready.call(request).await.map_err(ServiceError::Service)
        })
    }
}

impl fmt::Debug for BudgetLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetLayer")
            .field("budget", &self.budget.name())
            .field("weight", &self.weight)
            .field("wait_at_most", &self.patience)
            .finish()
    }
}

impl<S> fmt::Debug for BudgetService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetService").field("layer", &self.layer).finish_non_exhaustive()
    }
}
