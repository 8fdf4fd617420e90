//! Says in a truncated text that it is truncated.

use super::result_store::ResultHandle;

pub use switchboard_wire::text::fit;

/// What is appended to a cut text: how much there is, how much of it is shown, where the rest is.
pub fn marker(total: usize, shown: usize, whole: Option<&ResultHandle>) -> String {
    let rest = match whole {
        Some(handle) => format!("the whole is kept as {handle}"),
        None => "the rest is not kept".to_owned(),
    };
    format!("[cut: {total} bytes in all, the first {shown} shown; {rest}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_says_how_much_is_missing_and_where_it_is() {
        assert_eq!(
            marker(1_234_567, 100_000, None),
            "[cut: 1234567 bytes in all, the first 100000 shown; the rest is not kept]"
        );
        let handle: ResultHandle = "result-3f000000000000000000000000000001".parse().unwrap();
        assert_eq!(
            marker(9, 5, Some(&handle)),
            "[cut: 9 bytes in all, the first 5 shown; the whole is kept as \
             result-3f000000000000000000000000000001]"
        );
    }
}
