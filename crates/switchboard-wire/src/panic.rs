//! The message of a caught panic.

use std::any::Any;

/// Returns the message of a panic, if its payload is text.
pub fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    let message = payload.downcast_ref::<&str>().copied();
    message.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
