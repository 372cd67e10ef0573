//! Small collections for the search, which makes many thousands of them: in order, without hashing, in one piece of
//! memory each.

use std::ops::Index;

use crate::graph::NodeId;

/// A map with few keys, in ascending order.
#[derive(Debug, Clone)]
pub struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Few(Vec::new())
    }
}

impl<K: Ord + Copy, V: Copy> Few<K, V> {
    /// The value of a key, `absent` put there if there is none.
    pub fn or_insert(&mut self, key: K, absent: V) -> &mut V {
        let at = match self.0.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (key, absent));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Whether there is a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.0.binary_search_by(|(k, _)| k.cmp(key)).is_ok()
    }

    /// Keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// Values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Times of nodes that have one.
#[derive(Debug, Clone)]
pub struct Times(Vec<Option<i64>>);

impl Times {
    /// No times, for a graph of so many nodes.
    pub fn of(nodes: usize) -> Times {
        Times(vec![None; nodes])
    }

    /// The time of a node.
    pub fn get(&self, node: &NodeId) -> Option<i64> {
        self.0.get(node.0).copied().flatten()
    }

    /// Gives a node a time.
    pub fn set(&mut self, node: NodeId, time: i64) {
        self.0[node.0] = Some(time);
    }

    /// Nodes with their times, ascending by node.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, i64)> {
        self.0.iter().enumerate().filter_map(|(node, time)| time.map(|time| (NodeId(node), time)))
    }
}

impl Index<&NodeId> for Times {
    type Output = i64;

    /// The time of a node that has one.
    fn index(&self, node: &NodeId) -> &i64 {
        self.0[node.0].as_ref().expect("invariant: every scalar and act of the loop has a time")
    }
}
