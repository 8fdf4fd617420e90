//! The orders that an owner receives, and the effect of each.
//!
//! The effect depends on what the owner is doing when the order arrives. The caller of
//! [`Owner::handle_order`] closes the session if necessary. Invariant: an order is answered at most
//! once. An order is dropped without an answer if the owner ends, or if the session ends before the
//! tools are listed.

use switchboard_client::session::RequestError;
use tokio::sync::oneshot;

use super::Owner;
use crate::server::connect::ServerEndpoint;
use crate::server::state::Phase;

/// An order to the owner of a server. The owner answers after it has executed the order. It answers
/// an order to connect when it starts the connection attempt.
#[derive(Debug)]
pub(crate) enum Order {
    /// Connect, unless the server is connected or connecting.
    Wake(oneshot::Sender<()>),
    /// Close the session, if there is one, and connect.
    Restart(oneshot::Sender<()>),
    SetEnabled(bool, oneshot::Sender<()>),
    /// List the tools again.
    RefreshTools(oneshot::Sender<RefreshReply>),
}

/// The outcome of listing the tools. `None`: the server has no session.
pub(crate) type RefreshReply = Option<Result<(), RequestError>>;

/// What the owner is doing when an order arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Dormant, disabled, awaiting approval, or failed.
    Idle,
    Connecting,
    /// Waiting for the next connection attempt.
    Retrying,
    /// A session is open.
    Serving,
}

/// What the owner still has to do to execute an order.
pub(super) enum OrderOutcome {
    /// Nothing: the order was executed and answered.
    Done,
    /// Close the session, if there is one, answer the order, and connect.
    Connect(oneshot::Sender<()>),
    /// List the tools of the open session, then answer.
    RefreshTools(oneshot::Sender<RefreshReply>),
}

impl Owner {
    pub(super) fn handle_order(&mut self, order: Order, activity: Activity) -> OrderOutcome {
        match order {
            Order::Wake(done) => match activity {
                Activity::Connecting | Activity::Serving => acknowledge(done),
                Activity::Idle | Activity::Retrying => self.start_fresh(done),
            },
            Order::Restart(done) => match activity {
                Activity::Connecting => OrderOutcome::Connect(done),
                Activity::Serving => {
                    self.catalog.set_available(&self.key, false);
                    self.start_fresh(done)
                }
                Activity::Idle | Activity::Retrying => self.start_fresh(done),
            },
            Order::SetEnabled(enabled, done) => {
                let was_off = matches!(self.state.borrow().phase, Phase::Off { .. });
                self.catalog.set_enabled(&self.key, enabled);
                self.publish(|state| state.enabled = enabled);
                if was_off && enabled {
                    self.reset_failures();
                    return OrderOutcome::Connect(done);
                }
                acknowledge(done)
            }
            Order::RefreshTools(done) => {
                if activity == Activity::Serving {
                    return OrderOutcome::RefreshTools(done);
                }
                let _ = done.send(None);
                OrderOutcome::Done
            }
        }
    }

    /// Forgets all recorded failures and connects. Has no effect on a server without an endpoint.
    fn start_fresh(&mut self, done: oneshot::Sender<()>) -> OrderOutcome {
        if matches!(self.setup.endpoint, ServerEndpoint::None) {
            return acknowledge(done);
        }
        self.reset_failures();
        OrderOutcome::Connect(done)
    }

    fn reset_failures(&mut self) {
        self.backoff.reset();
        self.failed_attempts = 0;
        self.publish(|state| {
            state.phase = Phase::Starting;
            state.error = None;
        });
    }
}

fn acknowledge(done: oneshot::Sender<()>) -> OrderOutcome {
    // The sender of the order may have stopped waiting.
    let _ = done.send(());
    OrderOutcome::Done
}
