//! What stores hold for a kernel, brought to the clock: the generic part of a comparison.

use std::time::{Duration, Instant};

use super::comparison::{Compared, Comparison};
use super::race;
use super::record::{About, Kind, Record};
use super::session::Session;
use super::tunable::Tunable;
use super::{Options, key};
use crate::backend::{Backend, Target};
use crate::solve::Error;

/// Why nothing in a store applies.
const NOTHING: &str =
    "it holds no search of a kernel asked for, of this program at these sizes, in this precision, on this device";

/// Records of a store, with its name for people.
pub struct Recorded {
    /// Its name.
    pub store: String,
    /// Its records, oldest first.
    pub records: Vec<Record>,
}

/// A kernel that stores hold in one or more variants.
pub struct Group<K> {
    /// What says which kernel it is.
    pub kernel: K,
    held: Vec<Held>,
}

/// A variant, with the stores that hold it.
struct Held {
    stores: Vec<String>,
    variant: Vec<(String, String)>,
    /// Hash of the code that was measured.
    code: String,
}

/// Options of a session that records and remembers nothing.
pub fn unrecorded(options: &Options) -> Options {
    Options { fresh: true, ..options.clone() }
}

/// The kernels that stores hold, by what `place` makes of a record; it gives none for one that is not compared. The last
/// search of a store for a kernel counts.
///
/// # Errors
/// Those of `place`, and stores of which none has anything.
pub fn groups<K: PartialEq>(
    session: &Session<'_>,
    stores: &[Recorded],
    notices: &mut Vec<String>,
    mut place: impl FnMut(&Record) -> Result<Option<K>, Error>,
) -> Result<Vec<Group<K>>, Error> {
    let mut groups: Vec<Group<K>> = Vec::new();
    for Recorded { store, records } in stores {
        let mut applies = false;
        for record in records.iter().rev().filter(|record| record.kind == Kind::Winner && session.owns(record)) {
            let Some(kernel) = place(record)? else { continue };
            applies = true;
            let at = groups.iter().position(|group| group.kernel == kernel).unwrap_or_else(|| {
                groups.push(Group { kernel, held: Vec::new() });
                groups.len() - 1
            });
            groups[at].join(store, record);
        }
        if !applies {
            notices.push(format!("{store}: nothing in it applies: {NOTHING}"));
        }
    }
    if groups.is_empty() {
        return Err(Error::Input(notices.join("\n")));
    }
    Ok(groups)
}

impl<K> Group<K> {
    /// Adds what a search chose, unless a later one of its store did.
    fn join(&mut self, store: &str, record: &Record) {
        if self.held.iter().any(|held| held.stores.iter().any(|name| name == store)) {
            return;
        }
        match self.held.iter_mut().find(|held| held.code == record.code) {
            Some(held) => held.stores.push(store.to_string()),
            None => {
                let (stores, variant, code) = (vec![store.to_string()], record.variant.clone(), record.code.clone());
                self.held.push(Held { stores, variant, code });
            }
        }
    }

    /// Times the variants in turns, the default among them, and has `notices` say what of them does not hold.
    ///
    /// # Errors
    /// A device that no longer answers, or a default (and candidates in its place) that cannot be a reference.
    pub fn meet<T: Tunable>(
        self,
        session: &mut Session<'_>,
        tunable: T,
        asked: &race::Asked<'_>,
        notices: &mut Vec<String>,
    ) -> Result<Compared, Error> {
        let kernel = tunable.name().to_string();
        let (mut wanted, mut stores) = (Vec::new(), vec![Vec::new()]);
        for held in self.held {
            match held.numbered(&tunable, session.target) {
                Ok(0) => stores[0] = held.stores,
                Ok(number) => {
                    wanted.push(number);
                    stores.push(held.stores);
                }
                Err(why) => notices.push(format!("{}: {kernel}: {why}", held.stores.join(", "))),
            }
        }
        let sampled = race::compare(session, tunable, &wanted, asked)?;
        Ok(Compared::of(asked.schedule.to_string(), kernel, stores.into_iter().zip(sampled).collect()))
    }
}

impl Held {
    /// The number of the variant among a kernel's candidates.
    fn numbered(&self, tunable: &impl Tunable, target: Target) -> Result<usize, String> {
        let count = tunable.points().values.len();
        let number = (0..count).find(|number| tunable.parts(*number) == self.variant);
        let number = number.ok_or("its variant is none of the candidates that there are now")?;
        let (kernels, _) = tunable.map(number)?;
        if key::code(target, &kernels) != self.code {
            return Err("other code is generated now; tune again".to_string());
        }
        Ok(number)
    }
}

/// When the first of some kernels should be done, so that all have the same time.
pub fn share(session: &Session<'_>, left: usize) -> Option<Instant> {
    let now = Instant::now();
    let time = session.budget.until().map(|until| until.saturating_duration_since(now));
    time.map(|time: Duration| now + time / left.max(1) as u32)
}

/// Ends: the report, and the device.
pub fn end(
    session: Session<'_>,
    problem: String,
    stores: &[Recorded],
    kernels: Vec<Compared>,
    notices: Vec<String>,
) -> (Comparison, Box<dyn Backend>) {
    let (about, wall_seconds) = (session.about.clone(), session.budget.elapsed().as_secs_f64());
    let (notices, backend) = session.close(notices);
    let About { sizes, precision, device, .. } = about;
    let stores = stores.iter().map(|one| one.store.clone()).collect();
    (Comparison { problem, sizes, precision, device, stores, kernels, wall_seconds, notices }, backend)
}
