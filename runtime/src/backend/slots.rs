//! Things behind handles. A handle is never given out twice, so that a stale one is noticed, not obeyed.

/// Things by number.
#[derive(Debug)]
pub(super) struct Slots<T> {
    items: Vec<Option<T>>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Slots<T> {
        Slots { items: Vec::new() }
    }

    /// Number of the thing put in.
    pub(super) fn put(&mut self, item: T) -> usize {
        self.items.push(Some(item));
        self.items.len() - 1
    }

    pub(super) fn get(&self, number: usize) -> Option<&T> {
        self.items.get(number)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.items.get_mut(number)?.as_mut()
    }

    /// Takes a thing out; its number stays unused.
    pub(super) fn take(&mut self, number: usize) -> Option<T> {
        self.items.get_mut(number)?.take()
    }
}
