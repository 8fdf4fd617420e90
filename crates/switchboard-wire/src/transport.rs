//! [`Transport`]: exchanges whole messages with a server.
//!
//! A program implements it to reach a server by its own means. The client crate drives it; this
//! module only defines the contract.

use std::io;

use crate::BoxFuture;
use crate::mcp::Json;

/// A connection to one MCP server that carries one JSON-RPC message at a time.
///
/// Use [`Connector`](crate::Connector) instead if the connection is a stream of bytes with one
/// message per line.
///
/// The host calls [`connect`](Self::connect) before the first message and again after each
/// [`close`](Self::close), so one value serves all reconnects. It calls [`send`](Self::send) and
/// [`receive`](Self::receive) at the same time, but each of them only after its previous call has
/// returned. Any of the futures may be dropped before it is ready.
///
/// A message is JSON text: [`Json::parse`] and [`Json::as_str`] convert from and to text,
/// [`Json::from`] and [`Json::to_value`] from and to a [`serde_json::Value`].
pub trait Transport: Send + Sync + 'static {
    /// Opens the connection.
    fn connect(&self) -> BoxFuture<'_, io::Result<()>>;

    /// Sends one message. After an error the session ends.
    ///
    /// If the returned future fails when it is polled for the first time, the message counts as not
    /// sent, so the transport must not have sent a part of it. After an error that occurs later, it
    /// is unknown whether the server received the message.
    fn send(&self, message: Json) -> BoxFuture<'_, io::Result<()>>;

    /// Waits for the next message of the server. Returns `None` when the server has closed the
    /// connection. The session ends after `None` and after an error.
    ///
    /// If the future is dropped, the session has ended, so a message may be lost.
    fn receive(&self) -> BoxFuture<'_, io::Result<Option<Json>>>;

    /// Closes the connection. Called once after each successful [`connect`](Self::connect).
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Whether messages can be sent. While it returns `false`, no message is passed to
    /// [`send`](Self::send): requests fail as *not sent*, and the session ends.
    fn is_connected(&self) -> bool;
}

impl<T: Transport + ?Sized> Transport for std::sync::Arc<T> {
    fn connect(&self) -> BoxFuture<'_, io::Result<()>> {
        (**self).connect()
    }

    fn send(&self, message: Json) -> BoxFuture<'_, io::Result<()>> {
        (**self).send(message)
    }

    fn receive(&self) -> BoxFuture<'_, io::Result<Option<Json>>> {
        (**self).receive()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        (**self).close()
    }

    fn is_connected(&self) -> bool {
        (**self).is_connected()
    }
}
