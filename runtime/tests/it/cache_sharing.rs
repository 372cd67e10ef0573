//! The kernel cache under several threads and several processes.

use kernelwright::cache::{Cache, Description, Key, KeyBuilder};
use std::path::Path;
use std::process::Command;

/// Set for the processes that [`racing_processes_agree`] starts.
const CHILD: &str = "KERNELWRIGHT_TEST_CACHE_CHILD";
const KEYS: usize = 4;
const ROUNDS: usize = 20;

fn key(number: usize) -> Key {
    KeyBuilder::new("host").part("source", number.to_string()).finish()
}

/// Large enough that it is not written at one stroke.
fn unit(number: usize) -> Vec<u8> {
    (0..40_000).map(|byte| (byte * 31 + number) as u8).collect()
}

/// Asks for all units again and again, clearing in between, and checks every answer.
fn hammer(directory: &Path) {
    let cache = Cache::at(directory);
    for round in 0..ROUNDS {
        for number in 0..KEYS {
            let about = Description { backend: "host".to_owned(), ..Default::default() };
            let got = cache.get_or_build::<()>(&key(number), about, || Ok(unit(number))).unwrap();
            assert!(got == unit(number), "round {round}: wrong bytes for unit {number}");
        }
        if round % 10 == 7 {
            cache.clear().unwrap();
        }
    }
    assert_eq!(cache.take_notices(), [] as [&str; 0], "no reader may ever see half an entry");
}

#[test]
fn racing_threads_agree() {
    let place = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| hammer(place.path()));
        }
    });
    assert_eq!(Cache::at(place.path()).verify().unwrap(), []);
}

#[test]
fn racing_processes_agree() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return hammer(Path::new(&directory));
    }
    let place = tempfile::tempdir().unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache_sharing::racing_processes_agree"])
            .env(CHILD, place.path())
            .output()
            .unwrap()
    };
    let outputs = std::thread::scope(|scope| {
        let children: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
        children.into_iter().map(|child| child.join().unwrap()).collect::<Vec<_>>()
    });
    for output in outputs {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(Cache::at(place.path()).verify().unwrap(), []);
}
