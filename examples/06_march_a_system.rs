//! Marches a system of conservation laws: a mode of a cavity, with its energy on the way and its error at the end.

use std::ops::ControlFlow;
use std::sync::Arc;

use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::load;
use kernelwright::march::{Bound, Changes, Events, Marcher, Outcome, Progress, Spectrum, engine, reach};
use kernelwright::solve::Error;

/// Prints what is looked at.
struct Print {
    shown: u64,
}

impl Events for Print {
    fn progress(&mut self, progress: &Progress) -> Result<ControlFlow<()>, Error> {
        if progress.step * 5 >= progress.steps * self.shown {
            println!("t = {:.3}  energy {:.9}", progress.time, progress.energy);
            self.shown += 1;
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = load(&kernelwright_examples::program("cavity.kw"))?;
    let changes = Changes { set: vec![("N".to_string(), 3.0)], ..Changes::default() };
    let bound = Bound::new(&program, 0, &changes)?;
    let mut made = engine::open(&bound, &bound.system, Choice::Auto, &Arc::new(Cache::of_user()))?;
    let spectrum = Spectrum::measure(&bound, made.engine.as_mut())?;
    let marcher = Marcher::new(&bound, spectrum.step(reach(&bound.system.step)))?;
    let report = marcher.run(made.engine.as_mut(), None, &mut Print { shown: 1 })?;
    let ended = if report.outcome == Outcome::Finished { "finished" } else { "stopped" };
    println!("{ended} after {} steps of {:.2e} on {}", report.step, report.dt, made.engine.describe());
    for (name, error) in bound.system.components.iter().zip(&report.errors) {
        if let Some((error, norm)) = error {
            println!("{name}: error {error:.2e}, the exact solution has {norm:.2e}");
        }
    }
    Ok(())
}
