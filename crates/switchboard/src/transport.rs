//! Ways to a server: what is opened, and what has to be closed again.
//!
//! A transport yields streams (or a server in this process) and, where there is one, the child
//! that must not survive. It knows nothing of requests.

pub(crate) mod environment;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod proxy;
pub(crate) mod remote;
pub(crate) mod stderr;
pub(crate) mod stdio;

pub(crate) use switchboard_wire::Connector;
