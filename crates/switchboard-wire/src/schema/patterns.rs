//! Finds the regular expressions of a schema and divides the memory for them.
//!
//! A pattern of a few bytes, such as `\p{L}{1,150}`, can compile to megabytes. Each pattern of a
//! schema may take the same share of [`MAX_SCHEMA_REGEX_BYTES`].
//!
//! Invariant: the memory and the time to compile all patterns of a schema are bounded.

use std::collections::HashSet;

use serde_json::Value;

/// Maximum compiled size of all regular expressions of one schema, in bytes.
const MAX_SCHEMA_REGEX_BYTES: usize = 8 * 1024 * 1024;
/// Maximum length of all regular expressions of one schema, in bytes. Parsing a pattern takes time
/// and memory in proportion to its length.
const MAX_PATTERN_BYTES: usize = 32 * 1024;
/// The limits on the compiled size of one regular expression, in bytes. The first limit that all
/// patterns of a schema keep is used. A small limit proves that matching is fast.
const REGEX_SIZE_LIMITS: [usize; 4] = [4 * 1024, 32 * 1024, 256 * 1024, 1024 * 1024];
/// The smallest and the largest memory for the matcher of one regular expression, in bytes. Matching
/// with less memory is slower.
const MATCHER_BYTES: (usize, usize) = (16 * 1024, 1024 * 1024);

/// The regular expressions of a schema.
#[derive(Debug, Default)]
pub(super) struct Patterns<'a> {
    distinct: HashSet<&'a str>,
    bytes: usize,
}

impl<'a> Patterns<'a> {
    /// Finds all patterns of a schema. Includes values that look like patterns but are data, such
    /// as a member `pattern` of a default value.
    pub(super) fn of(schema: &'a Value) -> Self {
        let mut patterns = Self::default();
        let mut remaining = vec![schema];
        while let Some(value) = remaining.pop() {
            match value {
                Value::Array(elements) => remaining.extend(elements),
                Value::Object(members) => {
                    if let Some(pattern) = members.get("pattern").and_then(Value::as_str) {
                        patterns.insert(pattern);
                    }
                    let by_pattern = members.get("patternProperties").and_then(Value::as_object);
                    for pattern in by_pattern.into_iter().flat_map(|map| map.keys()) {
                        patterns.insert(pattern);
                    }
                    remaining.extend(members.values());
                }
                _ => {}
            }
        }
        patterns
    }

    fn insert(&mut self, pattern: &'a str) {
        if self.distinct.insert(pattern) {
            self.bytes += pattern.len();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.distinct.len()
    }

    /// The memory for the matcher of each regular expression, in bytes.
    pub(super) fn matcher_bytes(&self) -> usize {
        let (min, max) = MATCHER_BYTES;
        (MAX_SCHEMA_REGEX_BYTES / self.len().max(1)).clamp(min, max)
    }

    /// The limits to try on the size of each compiled pattern, smallest first. Fails if the schema
    /// has too many or too long patterns.
    pub(super) fn size_limits(&self) -> Result<impl Iterator<Item = usize> + use<>, String> {
        let [smallest, ..] = REGEX_SIZE_LIMITS;
        let count = self.len();
        let share = MAX_SCHEMA_REGEX_BYTES / count.max(1);
        if self.bytes > MAX_PATTERN_BYTES || share < smallest {
            let max_count = MAX_SCHEMA_REGEX_BYTES / smallest;
            return Err(format!(
                "its {count} regular expressions have {} bytes (at most {max_count} with \
                 {MAX_PATTERN_BYTES} bytes are compiled)",
                self.bytes
            ));
        }
        let limits = REGEX_SIZE_LIMITS.into_iter();
        // Without patterns, all limits have the same effect.
        let attempts = if count == 0 { 1 } else { usize::MAX };
        Ok(limits
            .take_while(move |limit| *limit <= share)
            .take(attempts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_patterns_count_once() {
        let schema = json!({
            "properties": {"a": {"pattern": "^x"}, "b": {"items": {"pattern": "^x"}}},
            "patternProperties": {"^y": {}},
        });
        assert_eq!(Patterns::of(&schema).len(), 2);
    }

    #[test]
    fn many_patterns_get_small_shares() {
        let schema = |count: usize| {
            let properties = (0..count)
                .map(|index| (format!("p{index}"), json!({"pattern": format!("{index}")})));
            json!({ "properties": properties.collect::<serde_json::Map<_, _>>() })
        };
        let largest = |count| {
            let schema = schema(count);
            let limits = Patterns::of(&schema).size_limits();
            limits.map(Iterator::last)
        };
        assert_eq!(largest(1), Ok(Some(1024 * 1024)));
        assert_eq!(largest(20), Ok(Some(256 * 1024)));
        assert_eq!(largest(200), Ok(Some(32 * 1024)));
        assert_eq!(largest(2_000), Ok(Some(4 * 1024)));
        assert!(largest(3_000).is_err());
    }
}
