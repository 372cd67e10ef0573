//! Lives: when a kept node's buffer holds something that is still needed.
//!
//! Positions are those of program order, doubled: 2p is where node p is computed, 2p + 1 is right after. A life is a set of
//! intervals. A value used in one arm of a branch is not alive in the other arms, which do not run then, unless a loop
//! brings control back; what is used inside a loop and computed outside of it lives until the loop ends.

/// First and last position of each arm of a branch.
pub(super) type Arms = Vec<(i64, i64)>;

/// The life of a node.
#[derive(Debug, Clone)]
pub(super) struct Life {
    born: i64,
    /// Begin and end: what is born at the end may share the buffer.
    intervals: Vec<(i64, i64)>,
}

impl Life {
    /// The life of what nobody has used yet.
    pub fn born(at: i64) -> Self {
        Life { born: at, intervals: vec![(at, at + 1)] }
    }

    /// One interval.
    pub fn pinned(first: i64, last: i64) -> Self {
        Life { born: first, intervals: vec![(first, last)] }
    }

    /// Whether at no time both are alive.
    pub fn apart(&self, other: &Life) -> bool {
        self.intervals.iter().all(|x| other.intervals.iter().all(|y| x.1 <= y.0 || y.1 <= x.0))
    }

    /// Something is stored in its place from here on, before it is born.
    pub fn begin(&mut self, at: i64) {
        self.intervals.push((at, self.born));
    }

    /// Adds a use; `loops` are first and last positions, `branches` the arms.
    pub fn extend(&mut self, at: i64, loops: &[(i64, i64)], branches: &[Arms]) {
        let within = |p: i64, (begin, end): (i64, i64)| 2 * begin < p && p < 2 * end;
        let again = loops.iter().filter(|l| within(at, **l) && !within(self.born, **l));
        let outermost = again.min_by_key(|l| l.0);
        let end = outermost.map_or(at, |l| at.max(2 * l.1));
        // Arms that cannot have run on the way from here to there. Doubled positions of an arm end with its last.
        let inside = |p: i64, (first, last): (i64, i64)| 2 * first < p && p <= 2 * last;
        let mut gaps: Vec<(i64, i64)> = Vec::new();
        for arms in branches {
            let repeated = outermost.is_some_and(|l| within(2 * arms[0].0, *l));
            let here = arms.iter().any(|a| inside(at, *a)) && !arms.iter().any(|a| inside(self.born, *a));
            if here && !repeated {
                gaps.extend(arms.iter().filter(|a| !inside(at, **a)));
            }
        }
        gaps.sort_unstable();
        let mut from = self.born;
        for (first, last) in gaps.into_iter().map(|(first, last)| (2 * first, 2 * last)).filter(|g| g.1 <= end) {
            if from < first {
                self.intervals.push((from, first));
            }
            from = from.max(last);
        }
        self.intervals.push((from, end));
    }
}
