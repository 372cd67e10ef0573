//! What searches chose for the kernels of a program, as stores have it, timed in turns in this process.

use std::time::Instant;

use super::{Tuner, delay, entry};
use crate::backend::Backend;
use crate::backend::shared::Shared;
use crate::solve::{Builder, Error};
use crate::tune::bench::Step;
use crate::tune::comparison::{Compared, Comparison};
use crate::tune::held::{self, Group, Recorded};
use crate::tune::race;
use crate::tune::record::Record;
use crate::tune::step::{StepSearch, steps};
use crate::tune::store::Store;
use crate::tune::{Options, Watch};

/// A step of a plan.
struct Kernel {
    plan: usize,
    step: Step,
    /// Hash of its default code: schedules share kernels.
    default: String,
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Kernel) -> bool {
        self.default == other.default
    }
}

/// Compares what stores hold for the kernels of what a builder would compile, on a back end, which is given back. Nothing is
/// recorded.
///
/// # Errors
/// What the compiler cannot do, a back end that fails, and stores of which none has anything for the program.
pub fn compare(
    builder: &Builder,
    backend: Box<dyn Backend>,
    stores: &[Recorded],
    options: &Options,
    watch: Watch,
) -> Result<(Comparison, Box<dyn Backend>), Error> {
    let (options, begin) = (held::unrecorded(options), Instant::now());
    let mut tuner = Tuner::new(builder, Shared::new(backend), &options, Store::none(), (watch, begin))?;
    let mut notices = Vec::new();
    let mut groups = held::groups(&tuner.session, stores, &mut notices, |record| tuner.kernel_of(record))?;
    tuner.notices.append(&mut notices);
    groups.sort_by_key(|group| (group.kernel.plan != tuner.planned.chosen, group.kernel.plan, group.kernel.step));
    let (mut kernels, mut left) = (Vec::new(), groups.len());
    for group in groups {
        let until = held::share(&tuner.session, left);
        left -= 1;
        match tuner.compare(group, until) {
            Ok(compared) => kernels.push(compared),
            Err(error) if !tuner.session.answers() => return Err(error),
            Err(why) => tuner.notices.push(format!("a kernel is not compared: {why}")),
        }
    }
    Ok(held::end(tuner.session, tuner.problem.name, stores, kernels, tuner.notices))
}

impl Tuner<'_, '_, '_> {
    /// The kernel that a record is of, if there is one and it was asked for.
    fn kernel_of(&self, record: &Record) -> Result<Option<Kernel>, Error> {
        let (schedule, kernels) = (self.builder.asked_schedule(), &self.session.options.kernels);
        let asked = schedule.is_none_or(|name| name == record.schedule)
            && (kernels.is_empty() || kernels.contains(&record.kernel));
        let plan = self.planned.plans.iter().position(|plan| plan.schedule.name == record.schedule);
        let Some(plan) = plan.filter(|_| asked) else { return Ok(None) };
        let about = &self.planned.plans[plan];
        let mut steps = steps(&about.program, delay(about)).into_iter().map(|(step, _)| step);
        let Some(step) = steps.find(|step| step.name(&about.program) == record.kernel) else { return Ok(None) };
        Ok(Some(Kernel { plan, step, default: self.code(about, step)? }))
    }

    /// Times a kernel's variants in turns.
    fn compare(&mut self, group: Group<Kernel>, until: Option<Instant>) -> Result<Compared, Error> {
        let plan = &self.planned.plans[group.kernel.plan];
        let entry = entry(plan, &self.small, &self.inputs, (group.kernel.step, &self.mapping))?;
        let found = StepSearch::new(&mut self.session, entry)?;
        let asked = race::Asked { schedule: &plan.schedule.name, until, ..race::Asked::default() };
        group.meet(&mut self.session, found, &asked, &mut self.notices)
    }
}
