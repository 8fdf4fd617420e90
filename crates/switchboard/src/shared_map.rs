//! A hash map whose clones share memory, for snapshots that are published after each change.
//!
//! The entries are leaves of a tree over the bits of their hashes. A clone shares the whole tree. A
//! change copies only the nodes between the root and one leaf.
//!
//! Invariant: cloning takes constant time, and a change takes time proportional to the depth of the
//! tree, which is logarithmic in the number of entries.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::Arc;

/// Number of bits of the hash that select a child of a branch.
const BITS: u32 = 4;
const CHILDREN: usize = 1 << BITS;
/// A leaf with more entries is split into a branch, except at [`MAX_LEVEL`].
const MAX_LEAF: usize = 8;
/// The level at which all bits of the hash are used up.
const MAX_LEVEL: u32 = u64::BITS / BITS;

/// A hash map with cheap clones. The order of its entries is not defined.
#[derive(Clone)]
pub(crate) struct SharedMap<K, V> {
    root: Child<K, V>,
    hasher: RandomState,
}

type Child<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone)]
enum Node<K, V> {
    Branch([Child<K, V>; CHILDREN]),
    Leaf(Vec<(K, V)>),
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self {
            root: None,
            hasher: RandomState::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> SharedMap<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut node = self.root.as_deref()?;
        let mut hash = self.hasher.hash_one(key);
        loop {
            match node {
                Node::Branch(children) => {
                    node = children.get(child_index(hash, 0))?.as_deref()?;
                    hash >>= BITS;
                }
                Node::Leaf(entries) => {
                    let entry = entries.iter().find(|(known, _)| known.borrow() == key);
                    return entry.map(|(_, value)| value);
                }
            }
        }
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Adds an entry. Replaces and returns the value of the same key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        insert(&mut self.root, hash, 0, (key, value), &self.hasher)
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.get(key)?;
        remove(&mut self.root, self.hasher.hash_one(key), 0, key)
    }

    /// Returns all values in no defined order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        let mut nodes: Vec<&Node<K, V>> = self.root.as_deref().into_iter().collect();
        let leaves = std::iter::from_fn(move || {
            loop {
                match nodes.pop()? {
                    Node::Branch(children) => {
                        nodes.extend(children.iter().flatten().map(|child| &**child));
                    }
                    Node::Leaf(entries) => return Some(entries),
                }
            }
        });
        leaves.flatten().map(|(_, value)| value)
    }
}

fn child_index(hash: u64, level: u32) -> usize {
    let bits = hash.checked_shr(level * BITS).unwrap_or(0);
    usize::try_from(bits).unwrap_or(usize::MAX) % CHILDREN
}

fn insert<K: Clone + Eq + Hash, V: Clone>(
    node: &mut Child<K, V>,
    hash: u64,
    level: u32,
    entry: (K, V),
    hasher: &RandomState,
) -> Option<V> {
    let Some(node) = node else {
        *node = Some(Arc::new(Node::Leaf(vec![entry])));
        return None;
    };
    match Arc::make_mut(node) {
        Node::Branch(children) => {
            let child = children.get_mut(child_index(hash, level))?;
            insert(child, hash, level + 1, entry, hasher)
        }
        Node::Leaf(entries) => {
            if let Some((_, known)) = entries.iter_mut().find(|(key, _)| *key == entry.0) {
                return Some(std::mem::replace(known, entry.1));
            }
            entries.push(entry);
            if entries.len() > MAX_LEAF && level < MAX_LEVEL {
                *node = Arc::new(split(std::mem::take(entries), level, hasher));
            }
            None
        }
    }
}

/// Distributes the entries of a leaf over the children of a branch.
fn split<K: Clone + Eq + Hash, V: Clone>(
    entries: Vec<(K, V)>,
    level: u32,
    hasher: &RandomState,
) -> Node<K, V> {
    let mut children: [Child<K, V>; CHILDREN] = Default::default();
    for entry in entries {
        let hash = hasher.hash_one(&entry.0);
        if let Some(child) = children.get_mut(child_index(hash, level)) {
            insert(child, hash, level + 1, entry, hasher);
        }
    }
    Node::Branch(children)
}

fn remove<K, V, Q>(node: &mut Child<K, V>, hash: u64, level: u32, key: &Q) -> Option<V>
where
    K: Clone + Borrow<Q>,
    V: Clone,
    Q: Eq + ?Sized,
{
    let (removed, is_empty) = match Arc::make_mut(node.as_mut()?) {
        Node::Branch(children) => {
            let child = children.get_mut(child_index(hash, level))?;
            let removed = remove(child, hash, level + 1, key);
            (removed, children.iter().all(Option::is_none))
        }
        Node::Leaf(entries) => {
            let index = entries
                .iter()
                .position(|(known, _)| known.borrow() == key)?;
            let (_, value) = entries.swap_remove(index);
            (Some(value), entries.is_empty())
        }
    };
    if is_empty {
        *node = None;
    }
    removed
}

impl<K, V> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMap").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(u16, u32),
        Remove(u16),
        Snapshot,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..200_u16, any::<u32>()).prop_map(|(key, value)| Change::Insert(key, value)),
            (0..200_u16).prop_map(Change::Remove),
            Just(Change::Snapshot),
        ]
    }

    fn sorted_values(map: &SharedMap<u16, u32>) -> Vec<u32> {
        let mut values: Vec<_> = map.values().copied().collect();
        values.sort_unstable();
        values
    }

    proptest! {
        #[test]
        fn map_equals_btree_map(changes in prop::collection::vec(change(), 0..600)) {
            let mut map = SharedMap::default();
            let mut model = BTreeMap::new();
            let mut snapshots = Vec::new();
            for change in changes {
                match change {
                    Change::Insert(key, value) => {
                        prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                    }
                    Change::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    Change::Snapshot => snapshots.push((map.clone(), model.clone())),
                }
            }
            snapshots.push((map, model));
            for (map, model) in &snapshots {
                for key in 0..200 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                }
                let mut expected: Vec<_> = model.values().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(sorted_values(map), expected);
            }
        }
    }
}
