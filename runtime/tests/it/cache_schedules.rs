//! Schedules that the cache remembers: the ones a search finds, whatever happens to their entries.

use std::fs;
use std::sync::Arc;

use kernelwright::cache::{Cache, CacheCounters};
use kernelwright::load::load;
use kernelwright::solve::{Builder, Solver};

use crate::cli::example;

fn with<'a>(builder: &Builder<'a>, cache: &Arc<Cache>) -> Builder<'a> {
    builder.clone().cache(cache.clone())
}

#[test]
fn what_is_remembered_is_what_is_found() {
    for program in ["poisson_2d", "pressure_correction", "own_loop"] {
        let loaded = load(&example(&format!("{program}.kw"))).unwrap();
        let builder = Solver::builder(&loaded);
        let front = builder.plan().unwrap();
        let place = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::at(place.path()));
        let preferred = [(None, front.plan())];
        let named = front.plans.iter().map(|plan| (Some(plan.schedule.name.as_str()), plan));
        for (name, expected) in preferred.into_iter().chain(named) {
            let builder = name.map_or(builder.clone(), |name| builder.clone().schedule(name));
            for round in ["searched for", "remembered"] {
                let got = with(&builder, &cache).plan_to_run().unwrap();
                assert_eq!(got.plan(), expected, "{program}, {name:?}, {round}");
            }
        }
        let asked = front.plans.len() as u64 + 1;
        assert_eq!(cache.counters(), CacheCounters { hits: asked, misses: asked }, "{program}");
        assert_eq!(cache.take_notices(), [] as [&str; 0]);
    }
}

#[test]
fn sizes_are_part_of_what_is_remembered() {
    let loaded = load(&example("pressure_correction.kw")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::at(place.path()));
    for size in [8.0, 9.0] {
        let builder = Solver::builder(&loaded).set("nx", size);
        let got = with(&builder, &cache).plan_to_run().unwrap();
        assert_eq!(got.plan(), builder.plan().unwrap().plan());
    }
    assert_eq!(cache.counters(), CacheCounters { hits: 0, misses: 2 });
}

#[test]
fn a_damaged_schedule_is_searched_for_again() {
    let loaded = load(&example("poisson_2d.kw")).unwrap();
    let builder = Solver::builder(&loaded);
    let place = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::at(place.path()));
    let found = with(&builder, &cache).plan_to_run().unwrap();
    let entry = fs::read_dir(place.path()).unwrap().next().unwrap().unwrap().path();
    let mut content = fs::read(&entry).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(&entry, content).unwrap();
    assert_eq!(with(&builder, &cache).plan_to_run().unwrap().plan(), found.plan());
    assert!(cache.take_notices()[0].contains("damaged"));
}
